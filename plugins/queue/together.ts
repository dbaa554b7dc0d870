/** Work on one item at a time becomes work on those that came while the last was under way. */

/** @returns resolves when the item's work is done, and rejects with what it rejected with */
export function together<Item> (work: (items: readonly Item[]) => Promise<void>): (item: Item) => Promise<void> {
  let items: Item[] = []
  let next: Promise<void> | null = null
  let underWay: Promise<unknown> = Promise.resolve()

  async function run (): Promise<void> {
    await underWay
    const own = items
    items = []
    next = null
    const done = work(own)
    underWay = done.catch(() => {})
    await done
  }

  return (item) => {
    items.push(item)
    next ??= run()
    return next
  }
}
