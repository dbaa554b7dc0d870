/**
 * A collection of short-lived objects, such as the responses in flight. Each has a slot, which is reused after it.
 *
 * A Set is unsuitable: V8 replaces the table of a Set as entries come and go, and a replaced table in the old generation keeps its last
 * entries, and all that they reach, until a full collection. Every response then survives its minor collections.
 */
export class Slots<T extends object> {
  readonly #items: Array<T | null> = []
  readonly #free: number[] = []

  get size (): number {
    return this.#items.length - this.#free.length
  }

  /** Returns the slot of the item, for `delete`. */
  add (item: T): number {
    const slot = this.#free.pop() ?? this.#items.length
    this.#items[slot] = item
    return slot
  }

  /** Frees a slot that `add` returned, once. */
  delete (slot: number): void {
    this.#items[slot] = null
    this.#free.push(slot)
  }

  * [Symbol.iterator] (): Generator<T> {
    for (const item of this.#items) if (item !== null) yield item
  }
}
