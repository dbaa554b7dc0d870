/** Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): merges lists by rank, since their scores are not comparable. */
import type { Found } from '../../lib/vectors/types.js'

const k = 60

/** Best first. The score is the sum of 1 / (60 + rank) over the lists. */
export function fuse (lists: readonly (readonly Found[])[]): Found[] {
  const fused = new Map<string, Found>()
  for (const list of lists) {
    for (const [index, found] of list.entries()) {
      const key = `${found.chunk} ${found.id}`
      fused.set(key, { ...found, score: (fused.get(key)?.score ?? 0) + 1 / (k + index + 1) })
    }
  }
  return [...fused.values()].sort((one, other) => other.score - one.score)
}
