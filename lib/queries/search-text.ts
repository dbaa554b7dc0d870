/** Prepares texts for `websearch_to_tsquery`, because PostgreSQL fails on some of them. */

/** Consecutive hyphens, each a negation: above 31 PostgreSQL fails with `tsquery stack too small`. */
const negations = /-(?:[^\p{L}\p{N}"-]*-){15,}/gu

/** Replaces many consecutive hyphens by one or none, with the same meaning: two negations cancel each other out. */
export function searchText (text: string): string {
  return text.replace(negations, (run) => run.replaceAll(/[^-]/g, '').length % 2 === 1 ? '-' : ' ')
}
