/** `update` and `delete`. */
import { type CompiledFilters, writeConditions } from './filter.js'
import type { Placeholders, Switch } from './sql.js'
import type { WriteInput } from './write-input.js'
import { type Form, type Written, selectWritten } from './write.js'
import type { Withheld } from './context.js'
import { tableEvents } from './entity-events.js'
import { markFiles } from './row-files.js'
import { tenantKeys } from './foreign-keys.js'
import { quote, tableName } from './identifiers.js'
import { rowBinder } from './insert.js'
import { rowConditions, where } from './scope.js'

export interface UpdateParts {
  readonly written: Omit<Written, 'keys'>
  readonly input: WriteInput
  readonly switches: readonly Switch[]
  readonly filters: CompiledFilters
  readonly form: Form
  /** The statement writes events of its rows, without the withheld columns. */
  readonly events?: { readonly withheld: Withheld | undefined }
}

/** Writes the statement for the columns whose switches are on; undefined if there are none. */
export function writeUpdate (parts: UpdateParts, placeholders: Placeholders, on: ReadonlySet<Switch>): string | undefined {
  const { written: { table, catalogue }, input, switches } = parts
  const given = input.columns.flatMap(({ column }, index) =>
    input.always.has(column.name) || on.has(switches[index]!) ? [{ column, index }] : []
  )
  if (given.length === 0) return undefined
  const alias = placeholders.alias()
  const set = given.map(({ column, index }) => `${quote(column.name)} = ${placeholders.add(rowBinder(index), column.type)}`)
  const conditions = conditionsOf(parts, alias, placeholders, on)
  const update = `update ${tableName(catalogue.schema, table)} ${alias} set ${set.join(', ')}${where(conditions)}`
  const keys = tenantKeys(table, catalogue).filter((key) => key.columns.some((name) => given.some(({ column }) => column.name === name)))
  const events = parts.events && { part: tableEvents(table, parts.events.withheld, 'updated', placeholders), returning: '' }
  return selectWritten([{ text: update }], alias, { ...parts.written, keys }, parts.form, placeholders, events)
}

export type DeleteParts = Pick<UpdateParts, 'filters' | 'events'> & { readonly written: Pick<Written, 'table' | 'catalogue'> }

export interface DeleteForm {
  /** Marks the rows as deleted. */
  readonly soft: boolean
  /** Removing a row also removes its files. */
  readonly withFiles: boolean
  /** Removes soft-deleted rows too. */
  readonly withDeleted: boolean
  readonly unique: boolean
}

/** Writes the statement that removes the rows, or marks them as deleted. */
export function writeDelete (
  parts: DeleteParts,
  { soft, withFiles, withDeleted, unique }: DeleteForm,
  placeholders: Placeholders,
  on: ReadonlySet<Switch>
): string {
  const { table, catalogue } = parts.written
  const alias = placeholders.alias()
  const condition = where(conditionsOf(parts, alias, placeholders, on, withDeleted))
  const name = tableName(catalogue.schema, table)
  const [write, result] = soft
    ? [
      `update ${name} ${alias} set ${table.columns.get('deleted')?.generated === true ? '' : '"deleted" = true, '}"deleted_at" = now()${condition}`,
      '{"success":true,"softDeleted":true}'
      ]
    : [`delete from ${name} ${alias}${condition}`, '{"success":true}']
  const files = withFiles && !soft ? markFiles(table, placeholders) : ''
  if (parts.events !== undefined) {
    return `with w as (${write} returning ${alias}.*)${
      tableEvents(table, parts.events.withheld, 'deleted', placeholders)
    }${files} select '${result}' from w limit 1`
  }
  if (files !== '') return `with w as (${write} returning ${alias}.*)${files} select '${result}' from w limit 1`
  return unique ? `${write} returning '${result}'` : `with w as (${write} returning 1) select '${result}' from w limit 1`
}

function conditionsOf (
  { written, filters }: Pick<DeleteParts, 'written' | 'filters'>,
  alias: string,
  placeholders: Placeholders,
  on: ReadonlySet<Switch>,
  withDeleted = false
): string[] {
  return [...rowConditions(written.table, alias, placeholders, { withDeleted }), ...writeConditions(filters, alias, placeholders, on)]
}
