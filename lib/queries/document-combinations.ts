/** Combinations of filters that Firestore refuses. */
import type { DocumentFilter } from '../firestore/types.js'

const maxCombinations = 30 // of the values of all filters: Firestore's disjunctions of a query

/** The reason why Firestore refuses a query with these filters; undefined if it accepts them. */
export function combinationFault (filters: readonly DocumentFilter[]): string | undefined {
  const all: DocumentFilter = { kind: 'and', filters }
  if (negationsIn(all) > 1) return 'Firestore supports `neq` only once in a query'
  if (arraysIn(all) > 1) {
    return 'Firestore supports one of `array-contains`, `array-contains-any` and `overlaps` in a query, or one in each member of an `or`'
  }
  const combinations = combinationsOf(all)
  if (combinations <= maxCombinations) return undefined
  return `Firestore supports at most ${maxCombinations} combinations of the values of all filters, but these have at least ${combinations}`
}

/** The filters that compare a field with `neq`. */
function negationsIn (filter: DocumentFilter): number {
  if (filter.kind !== 'field') return sum(filter.filters.map(negationsIn))
  return filter.operator === '!=' || filter.operator === 'not-in' ? 1 : 0
}

/** The filters of arrays that a document must match together. */
function arraysIn (filter: DocumentFilter): number {
  if (filter.kind === 'field') return filter.operator === 'array-contains' || filter.operator === 'array-contains-any' ? 1 : 0
  const counts = filter.filters.map(arraysIn)
  return filter.kind === 'or' ? Math.max(0, ...counts) : sum(counts)
}

/** The combinations of values of the filter. */
export function combinationsOf (filter: DocumentFilter): number {
  if (filter.kind === 'field') {
    const { operator, value } = filter
    return (operator === 'in' || operator === 'array-contains-any') && Array.isArray(value) ? value.length : 1
  }
  const counts = filter.filters.map(combinationsOf)
  return filter.kind === 'or' ? sum(counts) : counts.reduce((product, count) => product * count, 1)
}

function sum (counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
