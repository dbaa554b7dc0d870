/** The conditions of watches compare as the database does, or are refused. */
import { type Test, test } from 'tap'
import type { Table } from '../../../lib/database/catalogue.js'
import type { Engine } from '../../../lib/database/engine.js'
import { TenantryError } from '../../../lib/errors.js'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { castType } from '../../../lib/queries/sql.js'
import { Change, type WatchedTable } from '../../../lib/realtime/changes.js'
import { conditionsOf } from '../../../plugins/realtime/conditions.js'
import type { WatchRequest } from '../../../plugins/realtime/types.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { onEachEngine, openEngine, run } from '../../lib/database/open.js'
import { table as tableOf } from '../../lib/queries/tables.js'

const [one, two] = ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']

const watchedOf = (table: Table): WatchedTable => ({ table, excluded: new Set(), actions: null })

const conditions = (engine: Engine, table: Table, request: Partial<WatchRequest>) =>
  conditionsOf(engine, tenantRef('acme'), watchedOf(table), { table: table.name, ...request })

/** Whether a watch reports a new row. */
async function isReported (engine: Engine, table: Table, record: string, request: Partial<WatchRequest>): Promise<boolean> {
  const change = new Change({ position: 1, table: table.name, kind: 'I', record, before: null, cut: false }, watchedOf(table))
  return change.actionFor(await conditions(engine, table, request)) === 'created'
}

async function refused (
  t: Test,
  engine: Engine,
  table: Table,
  request: Partial<WatchRequest>,
  path: string,
  message: RegExp
): Promise<void> {
  const error: unknown = await conditions(engine, table, request).then(() => null, (error: unknown) => error)
  t.ok(error instanceof TenantryError, path)
  if (error instanceof TenantryError) t.match(error, { statusCode: 400, extras: { details: [{ path, message }] } })
}

/** Types, a stored value, and values of a filter. */
const columns = {
  fixed: ['char(5)', 'ab', ['ab', 'ab ', 'ab   ', 'ab       ', 'a', 'AB', 'abcdef', ' ab']],
  spaces: ['char(3)', '', ['', ' ', '      ', 'x']],
  wide: ['char(4)', '😀', ['😀', '😀  ', '😀😀']],
  short: ['varchar(5)', 'ab', ['ab', 'ab ']],
  plain: ['text', 'ab', ['ab', 'AB', 'ab ']],
  key: ['uuid', one, [one, one.toUpperCase(), two]],
  whole: ['integer', '7', [7, '007', '+7', 8]],
  exact: ['numeric(6, 2)', '1.5', [1.5, '1.50', '15e-1', '1.501']],
  single: ['real', '0.1', [0.1, '0.10', 0.2]],
  done: ['boolean', 'true', [true, 'true', false]],
  at: ['timestamptz', '2026-01-31T12:00:00Z', ['2026-01-31T12:00:00Z', '2026-01-31 13:00+01', '2026-01-31T12:00:01Z']],
  day: ['date', '2026-01-31', ['2026-01-31', '2026-1-31', '2026-02-01']],
  clock: ['time', '12:00', ['12:00', '12:00:00.000', '12:01']],
  address: ['inet', '192.0.2.1', ['192.0.2.1', '192.0.2.1/32', '192.0.2.2']],
  bytes: ['bytea', '\\x0a', ['\\x0a', '\\x0A', '\\x0b']],
  mood: ['mood', 'ok', ['ok', 'sad']],
  span: ['int4range', '[1,5)', ['[1,5)', '[1,4]', '[1,5]']],
  bits: ['bit(3)', '101', ['101', '1010']]
} as const

test('a condition holds for the rows that the database finds equal', (t) =>
  onEachEngine(t, async (t, engine) => {
    const definitions = Object.entries(columns).map(([name, [type]]) => `${name} ${type}`)
    const stored = Object.values(columns).map(([, value]) => `'${value}'`)
    await run(
      engine,
      "create type mood as enum ('sad', 'ok')",
      `create table things (id integer primary key, tenant_id text not null, ${definitions.join(', ')})`,
      `insert into things values (1, 'acme', ${stored.join(', ')})`
    )
    const things = (await engine.refresh()).tables.get('things')!
    const text = (sql: string, values: readonly unknown[] = []) => engine.text({ text: sql }, values, { tenant: platformRef })
    const record = await text('select row_to_json(x)::text from things x') ?? ''
    for (const [name, [type, , values]] of Object.entries(columns)) {
      for (const value of values) {
        const uncut = castType(things.columns.get(name)!.type)
        const isEqual = await text(`select (${name} = $1::${uncut})::text from things`, [String(value)]) === 'true'
        t.equal(await isReported(engine, things, record, { filter: { [name]: value } }), isEqual, `${type} ${JSON.stringify(value)}`)
      }
      t.equal(await isReported(engine, things, record, { filter: { [name]: null } }), false, `${type} null`)
    }
  }))

test('a filter on a column whose JSON does not decide equality is refused', (t) =>
  onEachEngine(t, async (t, engine) => {
    const types = [
      'citext', 'interval', 'numrange', 'nummultirange', 'money', 'tsvector', 'xml', 'point', 'ltree', 'app.word', 'json', 'jsonb', 'text[]',
      'character'
    ]
    for (const type of types) {
      const things = tableOf('things', ['id integer!', 'tenant_id text!', `code ${type}`])
      for (const value of ['a', null]) {
        await refused(t, engine, things, { filter: { code: value } }, '/filter/code', /which cannot be used in filters$/)
      }
    }
    const keyed = tableOf('things', ['code citext!', 'tenant_id text!'], { primaryKey: ['code'] })
    await refused(t, engine, keyed, { id: 'a' }, '/id', /^is a column of the type citext, which cannot be used in filters$/)
  }))

test('a filter on a column with a nondeterministic collation is refused', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create table words (id integer primary key, tenant_id text not null, word text collate nocase)`
  })
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const words = engine.catalogue.tables.get('words')!
  await refused(t, engine, words, { filter: { word: 'a' } }, '/filter/word', /^has a nondeterministic collation, so it cannot be used in filters$/)
})

test('the `id` of a watch and a filter on the key must both hold', (t) =>
  onEachEngine(t, async (t, engine) => {
    const notes = tableOf('notes', ['id uuid!', 'tenant_id text!', 'title text'])
    const record = JSON.stringify({ id: one, tenant_id: 'acme', title: 'x' })
    t.equal(await isReported(engine, notes, record, { id: one, filter: { id: two } }), false)
    t.equal(await isReported(engine, notes, record, { id: two, filter: { id: one } }), false)
    t.equal(await isReported(engine, notes, record, { id: one.toUpperCase(), filter: { id: one, title: 'x' } }), true)
    t.equal(await isReported(engine, notes, record, { id: one, filter: { title: 'y' } }), false)
    await refused(t, engine, notes, { id: one, filter: { id: 'x' } }, '/filter/id', /^is not a value of the type uuid$/)
    await refused(t, engine, notes, { id: 'x', filter: { id: one } }, '/id', /^is not a value of the type uuid$/)
  }))
