/** Declared keys, indexes and references, compared with those that PostgreSQL can make. */
import { test } from 'tap'
import { typeNames } from '../../../../lib/database/catalogue.js'
import { checkTables } from '../../../../lib/document/rules/tables.js'
import { FaultList, formatFault } from '../../../../lib/schema/faults.js'
import { type ColumnDefinition, columnTypeNames, type Tables } from '../../../../lib/schema/table.js'
import { onEachEngine, rejection, run } from '../../database/open.js'

function faultsOf (tables: Tables): string[] {
  const faults = new FaultList()
  checkTables(Object.entries(tables).map(([name, value]) => ({ name, pointer: `/tables/${name}`, value })), true, faults)
  return faults.faults.map(formatFault)
}

const id: ColumnDefinition = { type: 'uuid', primaryKey: true }

const referring = (from: ColumnDefinition['type'], to: ColumnDefinition['type']): Tables => ({
  keys: { columns: { id: { type: to, primaryKey: true } } },
  notes: { columns: { id, key: { type: from, references: 'keys.id' } } }
})

test('a key or an index with a column of the type json is a fault', async (t) => {
  const reason = (name: string) => `the column "${name}" has the type json, which PostgreSQL cannot index: make it jsonb`
  t.strictSame(
    faultsOf({
      notes: {
        columns: { id: { type: 'json', primaryKey: true }, a: { type: 'json', unique: true }, b: { type: 'json' }, c: { type: 'jsonb' } },
        indexes: [['c', 'b']],
        unique: [['c'], ['b']]
      }
    }),
    [
      `/tables/notes/indexes/0/1: ${reason('b')}`,
      `/tables/notes/unique/1/0: ${reason('b')}`,
      `/tables/notes/columns/id/primaryKey: ${reason('id')}`,
      `/tables/notes/columns/a/unique: ${reason('a')}`
    ]
  )
})

test('a numeric column that refers to an integer is a fault', async (t) => {
  for (const type of ['smallint', 'integer', 'int', 'bigint'] as const) {
    t.strictSame(faultsOf(referring('numeric', type)), [
      `/tables/notes/columns/key/references: the column has the type "numeric", but the referenced column has the type "${type}"`
    ])
    t.strictSame(faultsOf(referring(type, 'numeric')), [])
  }
})

test('PostgreSQL makes every key and every reference that the rules accept', (t) =>
  onEachEngine(t, async (t, engine) => {
    const unindexed = columnTypeNames.filter((type) => faultsOf({ notes: { columns: { id: { type, primaryKey: true } } } }).length > 0)
    t.strictSame(unindexed, ['json'])
    await t.rejects(run(engine, 'create table wrong (id json primary key)'))
    const types = columnTypeNames.filter((type) => !unindexed.includes(type))
    const nameOf = (type: ColumnDefinition['type']) => `"keys of ${type}"`
    await run(engine, ...types.map((type) => `create table ${nameOf(type)} (id ${typeNames[type]} primary key)`))
    const references = types.flatMap((from) =>
      types.filter((to) => faultsOf(referring(from, to)).length === 0).map((to) => [from, to] as const)
    )
    t.ok(references.length > types.length, `${references.length} references`)
    const columns = references.map(([from, to], index) => `c${index} ${typeNames[from]} references ${nameOf(to)}`)
    await run(engine, `create table referring (${columns.join(', ')})`)
    t.match(
      await rejection(run(engine, `create table refused (id numeric references ${nameOf('integer')})`)),
      { cause: { code: '42804' } }
    )
  }))
