/** The parts of a filter: a comparison in the configuration, and the SQL condition that it becomes. */
import type { Filter } from '../schema/query.js'
import type { Reference } from '../expressions/types.js'
import type { Placeholders } from './sql.js'
import type { Switch } from './statement.js'

/** A condition on the rows of one alias; undefined when the request drops all that it holds. */
export type Condition = (alias: string, placeholders: Placeholders, on: ReadonlySet<Switch>) => string | undefined

/** What is made of a comparison: a column's, or that of a field of a document. */
export interface Comparison {
  readonly condition: Condition
  /** Present only where the filter is optional. */
  readonly presence?: Switch
  readonly references: readonly Reference[]
}

/** A filter that compares. */
export type ComparisonFilter = Extract<Filter, { column: string }>
