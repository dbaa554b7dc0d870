/** Texts for `websearch_to_tsquery`, of which PostgreSQL fails on some with an error of its own. */

/** Hyphens that negate what follows: of more than 31 in a row PostgreSQL says `tsquery stack too small`. */
const negations = /-(?:[^\p{L}\p{N}"-]*-){15,}/gu

/** The text with one hyphen or none for many in a row, which mean the same: two of them cancel each other out. */
export function searchText (text: string): string {
  return text.replace(negations, (run) => run.replaceAll(/[^-]/g, '').length % 2 === 1 ? '-' : ' ')
}
