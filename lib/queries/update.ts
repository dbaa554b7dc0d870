/** Compiles `update` and `delete` of the rows that the filters or the key select. */
import { failure } from '../errors.js'
import type { Scope } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import { compileWrite, tableEvents } from './entity-events.js'
import { rowConditions, where, writeConditions } from './filter.js'
import { rowBinder } from './insert.js'
import type { CompiledOperation } from './operation.js'
import { unordered, writeRecord, writeRecords } from './read.js'
import { markFiles } from './row-files.js'
import { isOneRow, isUnique } from './row-key.js'
import { type Draft, quote, type Switch, tableName } from './sql.js'
import type { Subject } from './subject.js'
import { type Form, selectWritten, tenantKeys } from './write.js'
import { compileInput, givenColumns, type InputColumn } from './write-input.js'

/** Compiles an `update`; undefined after faults. */
export function compileUpdate (subject: Subject): CompiledOperation | undefined {
  const { query, table, pointer, context, excluded, filters } = subject
  const input = compileInput(query.data, table, pointer, context, { excluded, many: false, omit: 'some' })
  if (!checkFilters(subject) || input === undefined) return undefined

  const unique = isOneRow(filters, table)
  const one = unique || query.single === true
  const form: Form = one ? { kind: 'record', unique } : { kind: 'records' }
  const switches = [...subject.switches, ...input.columns.flatMap(({ presence }) => presence ?? [])]
  const variants = compileWrite(context.origin, switches, (draft, events) => {
    const given = givenColumns(input, draft)
    if (given.length > 0) return writeUpdate(subject, given, form, draft, events)
    // Without columns to set, the rows are returned unchanged.
    return one ? writeRecord(subject, unordered, draft) : writeRecords(subject, draft)
  })
  return {
    resultKind: one ? 'record' : 'records',
    missing: 'notFound',
    references: [...subject.references, ...input.references],
    inputPointers: input.inputPointers,
    tenantKeys: tenantKeys(table, context.catalogue),
    bind: (scope) => {
      const [row] = input.read(scope).rows
      return variants(scope, { row: row!.bound, rows: '', count: 1 })
    }
  }
}

/** Compiles a `delete`; undefined after faults. */
export function compileDelete (subject: Subject): CompiledOperation | undefined {
  const { table, pointer, context, filters } = subject
  const soft = context.softDelete?.enabled === true
  const allowHard = context.softDelete?.allowHardDelete === true
  if (soft && !table.softDelete) {
    const missing = [['deleted', 'boolean'], ['deleted_at', 'timestamptz']].filter(([name]) => !table.columns.has(name!))
    const reason = missing.length > 0
      ? `"${table.name}" lacks ${missing.map(([name, type]) => `the column "${name}" (${type})`).join(' and ')}`
      : `the columns of "${table.name}" are not "deleted" (boolean) and "deleted_at" (timestamptz)`
    context.faults.add(pointer, `the route's \`softDelete\` marks rows as deleted, but ${reason}`)
    return undefined
  }
  if (!checkFilters(subject)) return undefined

  const isSoft: Switch = (scope) => !asksForHard(scope)
  const variants = compileWrite(
    context.origin,
    soft && allowHard ? [...filters.switches, isSoft] : filters.switches,
    (draft, events) => writeDelete(subject, soft && (!allowHard || draft.has(isSoft)), draft, events)
  )
  return {
    resultKind: 'deletion',
    missing: 'notFound',
    references: filters.references,
    bind: (scope) => {
      if (soft && !allowHard && asksForHard(scope)) throw failure('forbidden', { message: 'This route does not allow hard=true' })
      return variants(scope)
    }
  }
}

/** `?hard=true`; it is a boolean if the route validates its query string. */
function asksForHard ({ query }: Scope): boolean {
  return query.hard === true || query.hard === 'true'
}

/** Omitting the value of an optional filter must not change every row, nor may `single` change the other matching rows unseen. */
function checkFilters ({ query, table, pointer, context, filters }: Subject): boolean {
  const hasFilters = (query.filters ?? []).length > 0
  // Filters with faults are left out: what remains says nothing about the declared ones.
  if (context.faults.faults.some(({ pointer: at }) => at.startsWith(`${pointer}/filters/`))) return false
  if (query.single === true && query.id === undefined && hasFilters && !isUnique(filters, table)) {
    const verb = query.operation === 'update' ? 'change' : 'delete'
    context.faults.add(
      pointerTo(pointer, 'single'),
      `this \`${query.operation}\` would ${verb} all matching rows instead of one: set \`id\`, or \`eq\` filters on all columns of a primary or unique key that are not \`optional\``
    )
    return false
  }
  if (filters.always) return true
  // A query without any filter has been reported already.
  if (hasFilters) {
    context.faults.add(
      pointerTo(pointer, 'filters'),
      `all filters of this \`${query.operation}\` are optional: without them it would affect all rows`
    )
  }
  return false
}

function writeUpdate (subject: Subject, given: readonly InputColumn[], form: Form, draft: Draft, withEvents: boolean): string {
  const { table, context: { catalogue, withheld } } = subject
  const alias = draft.alias()
  const set = given.map(({ column, index }) => `${quote(column.name)} = ${draft.add(rowBinder(index), column.type)}`)
  const conditions = conditionsOf(subject, alias, draft)
  const update = `update ${tableName(catalogue.schema, table)} ${alias} set ${set.join(', ')}${where(conditions)}`
  const keys = tenantKeys(table, catalogue).filter((key) => key.columns.some((name) => given.some(({ column }) => column.name === name)))
  const events = withEvents ? { part: tableEvents(table, withheld, 'updated', draft), returning: '' } : undefined
  return selectWritten(subject, [{ text: update }], alias, keys, form, draft, events)
}

/** Writes the statement that marks the rows as deleted (`soft`), or removes them, including rows that are marked already. */
function writeDelete (subject: Subject, soft: boolean, draft: Draft, events: boolean): string {
  const { table, filters, context: { catalogue, deletesFiles = false, softDelete, withheld } } = subject
  const alias = draft.alias()
  const condition = where(conditionsOf(subject, alias, draft, softDelete?.enabled === true && !soft))
  const name = tableName(catalogue.schema, table)
  const [write, result] = soft
    ? [
      `update ${name} ${alias} set ${table.columns.get('deleted')?.generated === true ? '' : '"deleted" = true, '}"deleted_at" = now()${condition}`,
      '{"success":true,"softDeleted":true}'
      ]
    : [`delete from ${name} ${alias}${condition}`, '{"success":true}']
  const files = deletesFiles && !soft ? markFiles(table, draft) : ''
  const eventText = events ? tableEvents(table, withheld, 'deleted', draft) : ''
  if (events || files !== '') return `with w as (${write} returning ${alias}.*)${eventText}${files} select '${result}' from w limit 1`
  return isOneRow(filters, table) ? `${write} returning '${result}'` : `with w as (${write} returning 1) select '${result}' from w limit 1`
}

function conditionsOf ({ table, filters }: Subject, alias: string, draft: Draft, withDeleted = false): string[] {
  return [...rowConditions(table, alias, draft, withDeleted), ...writeConditions(filters, alias, draft)]
}
