/** The parts of a filter: a configured comparison, and the SQL condition that it compiles to. */
import type { Filter } from '../schema/query.js'
import type { Reference } from '../expressions/types.js'
import type { Placeholders, Switch } from './sql.js'

/** A condition on the rows of one alias; undefined if the request omits all of its comparisons. */
export type Condition = (alias: string, placeholders: Placeholders, on: ReadonlySet<Switch>) => string | undefined

/** A compiled comparison of a column, or of a field of a document. */
export interface Comparison {
  readonly condition: Condition
  /** Present only if the filter is optional. */
  readonly presence?: Switch
  readonly references: readonly Reference[]
}

export type ComparisonFilter = Extract<Filter, { column: string }>
