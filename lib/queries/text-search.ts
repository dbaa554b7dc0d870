/** The operator `fts`: PostgreSQL's full-text search, with the syntax of `websearch_to_tsquery`, which accepts any text. */
import type { ComparisonFilter } from './filter-value.js'
import type { QueryContext } from './context.js'
import { literal } from '../database/sql.js'
import { nearest, pointerTo } from '../schema/faults.js'
import { isStorable } from '../json/storable.js'
import { unfit, type Encoder } from './column-value.js'

const maxLength = 1000 // characters of a search
const standard = 'simple'

/** For messages. */
export const searchExpectation = `a string of at most ${maxLength} characters`

export const encodeSearch: Encoder = (value) => {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text.length <= maxLength && isStorable(text) ? searchText(text) : unfit
}

/** The text search configuration of a filter, as SQL; undefined after a fault, and for other operators. */
export function searchConfiguration (
  { operator, config }: ComparisonFilter,
  pointer: string,
  { catalogue, faults }: QueryContext
): string | undefined {
  if (operator !== 'fts') {
    if (config !== undefined) faults.add(pointerTo(pointer, 'config'), 'only the operator `fts` has a `config`')
    return undefined
  }
  const name = config ?? standard
  const known = catalogue.searchConfigurations
  const found = known === undefined ? name : known.get(name)
  if (found === undefined) {
    faults.add(pointerTo(pointer, 'config'), `the database has no text search configuration "${name}"`, nearest(name, known?.keys() ?? []))
    return undefined
  }
  return `${literal(found)}::regconfig`
}

/** The condition that a text, or a tsvector, matches the search. It can use an index on the same expression. */
export function writeSearch (configuration: string, value: string, isVector: boolean, search: string): string {
  return `${isVector ? value : `to_tsvector(${configuration}, ${value})`} @@ websearch_to_tsquery(${configuration}, ${search})`
}

/** Consecutive hyphens, each a negation: above 31 PostgreSQL fails with `tsquery stack too small`. */
const negations = /-(?:[^\p{L}\p{N}"-]*-){15,}/gu

/** Replaces many consecutive hyphens by one or none, with the same meaning: two negations cancel each other out. */
export function searchText (text: string): string {
  return text.replace(negations, (run) => run.replaceAll(/[^-]/g, '').length % 2 === 1 ? '-' : ' ')
}
