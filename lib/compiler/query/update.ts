/** `update` and `delete`. */
import type { CompiledFilters } from './filter.js'
import type { Placeholders } from './sql.js'
import type { Switch } from './statement.js'
import type { WriteInput } from './write-input.js'
import type { Form, Written } from './write.js'
import { writeConditions } from './filter.js'
import { tenantKeys } from './foreign-keys.js'
import { quote, tableName } from './identifiers.js'
import { rowBinder } from './insert.js'
import { rowConditions, where } from './scope.js'
import { answerWritten } from './write.js'

export interface UpdateParts {
  readonly written: Omit<Written, 'keys'>
  readonly input: WriteInput
  readonly switches: readonly Switch[]
  readonly filters: CompiledFilters
  readonly form: Form
}

/** Writes the statement for the columns that are on; undefined where none is. */
export function writeUpdate (parts: UpdateParts, placeholders: Placeholders, on: ReadonlySet<Switch>): string | undefined {
  const { written: { table, catalogue }, input, switches } = parts
  const given = input.columns.flatMap(({ column }, index) => input.always.has(column.name) || on.has(switches[index]!) ? [{ column, index }] : [])
  if (given.length === 0) return undefined
  const alias = placeholders.alias()
  const set = given.map(({ column, index }) => `${quote(column.name)} = ${placeholders.add(rowBinder(index), column.type)}`)
  const conditions = conditionsOf(parts, alias, placeholders, on)
  const update = `update ${tableName(catalogue.schema, table)} ${alias} set ${set.join(', ')}${where(conditions)}`
  const keys = tenantKeys(table, catalogue).filter((key) => key.columns.some((name) => given.some(({ column }) => column.name === name)))
  return answerWritten(update, alias, { ...parts.written, keys }, parts.form, placeholders)
}

export type DeleteParts = Pick<UpdateParts, 'filters'> & { readonly written: Pick<Written, 'table' | 'catalogue'> }

/** Writes the statement that removes the rows, or marks them as deleted. */
export function writeDelete (parts: DeleteParts, { soft, unique }: { soft: boolean, unique: boolean }, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const { table, catalogue } = parts.written
  const alias = placeholders.alias()
  const condition = where(conditionsOf(parts, alias, placeholders, on))
  const name = tableName(catalogue.schema, table)
  const [write, answer] = soft
    ? [`update ${name} ${alias} set "deleted" = true, "deleted_at" = now()${condition}`, '{"success":true,"softDeleted":true}']
    : [`delete from ${name} ${alias}${condition}`, '{"success":true}']
  return unique ? `${write} returning '${answer}'` : `with w as (${write} returning 1) select '${answer}' from w limit 1`
}

function conditionsOf ({ written, filters }: DeleteParts, alias: string, placeholders: Placeholders, on: ReadonlySet<Switch>): string[] {
  return [...rowConditions(written.table, alias, placeholders), ...writeConditions(filters, alias, placeholders, on)]
}
