/** Turns work on single items into work on all items that arrived during the previous batch. */

/**
 * @param work gets the items in their order, at least one, and never runs twice at a time. If all callers ask for the same, an item is
 * void.
 * @returns takes an item, whose work begins after the call: a running batch is awaited first, and callers meanwhile share the next one.
 * Resolves and rejects as that batch does.
 */
export function createBatcher<Item, Result> (work: (items: readonly Item[]) => Promise<Result>): (item: Item) => Promise<Result> {
  let items: Item[] = []
  let next: Promise<Result> | null = null
  let underWay: Promise<unknown> = Promise.resolve()

  async function run (): Promise<Result> {
    await underWay
    const own = items
    items = []
    next = null
    const done = work(own)
    underWay = done.catch(() => {})
    return await done
  }

  return (item) => {
    items.push(item)
    next ??= run()
    return next
  }
}
