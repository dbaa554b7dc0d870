/** Work on one item at a time becomes work on all that came while the last was under way. */

/**
 * @param work is given the items in the order in which they came, at least one, and is never run twice at a time. It may be
 * that every caller asks for the same: then an item is void.
 * @returns takes an item, whose work begins later than the call: what is under way by then is waited for, however it ends,
 * and those who call meanwhile share what follows. Resolves and rejects with what that work does.
 */
export function together<Item, Result> (work: (items: readonly Item[]) => Promise<Result>): (item: Item) => Promise<Result> {
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
