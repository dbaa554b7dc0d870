/** Checks of declared tables beyond their schema. */
import { typeNames } from '../../database/catalogue.js'
import { columnDefinitions } from '../../database/declared-tables.js'
import { describeType, encoderOf, isOrdered, orderedInstead, unfit } from '../../queries/column-value.js'
import { type FaultList, nearest, pointerTo } from '../../schema/faults.js'
import type { ColumnDefinition, TableDefinition } from '../../schema/table.js'
import type { Entry } from '../sections.js'

/** Types that PostgreSQL compares with each other, so that foreign keys may mix them. */
const comparable = [['smallint', 'integer', 'int', 'bigint', 'numeric'], ['text', 'varchar'], ['real', 'double precision'], [
  'timestamptz',
  'timestamp',
  'date'
]]

/** `complete`: these are all tables; otherwise an undeclared one may exist in the database. */
export function checkTables (tables: readonly Entry<TableDefinition>[], complete: boolean, faults: FaultList): void {
  const declared = new Map(tables.map(({ name, value }) => [name, value]))
  for (const { name, pointer, value: table } of tables) {
    if (name.startsWith('pg_')) faults.add(pointer, 'names that start with "pg_" are reserved by PostgreSQL')
    if (!Object.values(table.columns).some((column) => column.primaryKey === true)) {
      faults.add(`${pointer}/columns`, 'the table has no primary key: expected `primaryKey: true` on one or more columns')
    }
    checkAdded(table, pointer, faults)
    checkKeys(table, pointer, faults)
    for (const [column, definition] of Object.entries(table.columns)) {
      const at = pointerTo(pointer, 'columns', column)
      for (const member of ['primaryKey', 'unique'] as const) {
        if (definition[member] === true) checkIndexed(column, definition, `${at}/${member}`, faults)
      }
      checkDefault(definition, at, faults)
      if (definition.references !== undefined) {
        checkReference(definition, definition.references, `${at}/references`, declared, complete, faults)
      }
    }
  }
}

/** Columns with a fixed meaning, if the document declares them itself. */
function checkAdded (table: TableDefinition, pointer: string, faults: FaultList): void {
  const { tenant_id: tenantId, deleted, deleted_at: deletedAt } = table.columns
  const at = (column: string, member: string) => pointerTo(pointer, 'columns', column, member)
  if (tenantId !== undefined && tenantId.type !== 'text' && tenantId.type !== 'varchar') {
    faults.add(at('tenant_id', 'type'), 'the tenant of a row is a string: expected "text"')
  }
  if (tenantId !== undefined && table.tenantScoped === false) {
    faults.add(`${pointer}/tenantScoped`, 'a table with a column `tenant_id` is tenant-scoped: rename the column, or remove this')
  }
  if (table.softDelete !== true) return
  if (deleted !== undefined && deleted.type !== 'boolean') faults.add(at('deleted', 'type'), 'with `softDelete` expected "boolean"')
  if (deletedAt !== undefined && !deletedAt.type.startsWith('timestamp')) {
    faults.add(at('deleted_at', 'type'), 'with `softDelete` expected "timestamptz"')
  }
}

/** Indexes and unique sets name columns of the table, each once. */
function checkKeys (table: TableDefinition, pointer: string, faults: FaultList): void {
  const columns = columnDefinitions(table)
  for (const member of ['indexes', 'unique'] as const) {
    for (const [index, names] of (table[member] ?? []).entries()) {
      for (const [position, name] of names.entries()) {
        const at = pointerTo(pointer, member, index, position)
        if (!Object.hasOwn(columns, name)) faults.add(at, `the table has no column "${name}"`, nearest(name, Object.keys(columns)))
        else if (names.indexOf(name) < position) faults.add(at, `the column "${name}" is duplicated`)
        else checkIndexed(name, columns[name]!, at, faults)
      }
    }
  }
}

/** PostgreSQL's usual indexes need an order. Keys have such an index too. */
function checkIndexed (name: string, { type }: ColumnDefinition, at: string, faults: FaultList): void {
  if (isOrdered(type)) return
  faults.add(at, `the column "${name}" has the type ${type}, which PostgreSQL cannot index${orderedInstead(type)}`)
}

function checkReference (
  column: ColumnDefinition,
  references: string,
  at: string,
  declared: ReadonlyMap<string, TableDefinition>,
  complete: boolean,
  faults: FaultList
): void {
  const [tableName = '', columnName = ''] = references.split('.')
  const table = declared.get(tableName)
  if (table === undefined) {
    if (complete) faults.add(at, `there is no table "${tableName}"`, nearest(tableName, declared.keys()))
    return
  }
  const columns = columnDefinitions(table)
  const target = Object.hasOwn(columns, columnName) ? columns[columnName] : undefined
  if (target === undefined) {
    faults.add(at, `the table "${tableName}" has no column "${columnName}"`, nearest(columnName, Object.keys(columns)))
    return
  }
  const keys = Object.entries(table.columns).filter(([, { primaryKey }]) => primaryKey === true).map(([name]) => name)
  const alone = target.unique === true || (keys.length === 1 && keys[0] === columnName) ||
    (table.unique ?? []).some((names) => names.length === 1 && names[0] === columnName)
  if (!alone) faults.add(at, `"${references}" is not unique: a foreign key requires a primary key, or a column with \`unique: true\``)
  if (!canRefer(column.type, target.type)) {
    faults.add(at, `the column has the type "${column.type}", but the referenced column has the type "${target.type}"`)
  }
}

function canRefer (from: string, to: string): boolean {
  if (from === to) return true
  // PostgreSQL rounds no numeric to an integer by itself.
  return from !== 'numeric' && comparable.some((types) => types.includes(from) && types.includes(to))
}

const timeTypes = /^(?:timestamp|date|time)/
/** PostgreSQL evaluates these words of a literal once, when it creates the column. */
const currentTime = /\b(?:now|today|tomorrow|yesterday)\b/i

/** Functions fit their own type only; any other value is a literal of the type. */
function checkDefault ({ type, default: value }: ColumnDefinition, at: string, faults: FaultList): void {
  const pointer = `${at}/default`
  if (value === undefined || value === null) return
  if (value === 'uuid()') {
    if (type !== 'uuid' && type !== 'text' && type !== 'varchar') faults.add(pointer, `\`uuid()\` is not a value of the type "${type}"`)
  } else if (value === 'now()') {
    if (!timeTypes.test(type)) faults.add(pointer, `\`now()\` is not a value of the type "${type}"`)
  } else if (timeTypes.test(type) && typeof value === 'string' && currentTime.test(value)) {
    faults.add(pointer, 'each row would get the time of the migration', functionFor(value, type))
  } else if (!isLiteral(value, type)) {
    faults.add(pointer, `expected ${describeType({ type: typeNames[type] })}`, functionFor(value, type))
  }
}

function isLiteral (value: unknown, type: ColumnDefinition['type']): boolean {
  // PostgreSQL's own text of an array.
  if (type.endsWith('[]') && typeof value === 'string') return /^\{.*\}$/s.test(value)
  return encoderOf({ type: typeNames[type] })(value) !== unfit
}

/** `gen_random_uuid()` and `CURRENT_TIMESTAMP` have their own names here. */
function functionFor (value: unknown, type: string): string | undefined {
  if (typeof value !== 'string' || /\d/.test(value)) return undefined
  if (type === 'uuid' && /uuid/i.test(value)) return 'uuid()'
  return timeTypes.test(type) && /now|current/i.test(value) ? 'now()' : undefined
}
