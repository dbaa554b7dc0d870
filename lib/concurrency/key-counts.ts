/** Counts by key, such as the running calls of each tenant. A key without a count takes no memory. */
export class KeyCounts<Key> {
  readonly #counts = new Map<Key, number>()
  #total = 0

  /** The number of keys with a count. */
  get size (): number {
    return this.#counts.size
  }

  get total (): number {
    return this.#total
  }

  entries (): Iterable<readonly [Key, number]> {
    return this.#counts
  }

  of (key: Key): number {
    return this.#counts.get(key) ?? 0
  }

  /**
   * Whether the key has more than `max`, or, while all keys together have more than `maxInAll`, more than an equal share of it. So many
   * keys together cannot shut out another.
   */
  exceedsShare (key: Key, max: number, maxInAll: number): boolean {
    const count = this.of(key)
    return count > max || (this.#total > maxInAll && count * this.size > maxInAll)
  }

  add (key: Key, amount: number): void {
    this.#total += amount
    const count = this.of(key) + amount
    if (count > 0) this.#counts.set(key, count)
    else this.#counts.delete(key)
  }
}
