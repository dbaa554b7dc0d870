/** Numbers from 0 to 1 that depend only on the seed: mulberry32. */
export function seededRandom (seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

export type SeededChoices = ReturnType<typeof seededChoices>

/** Whole numbers below a bound, and items of lists, that depend only on the seed. */
export function seededChoices (seed: number) {
  const random = seededRandom(seed)
  const next = (below: number): number => Math.floor(random() * below)
  const pick = <Item>(items: readonly Item[]): Item => items[next(items.length)]!
  return { next, pick }
}
