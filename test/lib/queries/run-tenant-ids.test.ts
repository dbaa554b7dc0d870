/** Tables whose `tenant_id` is a UUID or an integer, which PostgreSQL reads in several spellings. */
import type { Scope } from '../../../lib/expressions/types.js'
import type { Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { type Library, onEachEngine, refusalOf } from './database.js'

const tables = ['notes_uuid', 'notes_small', 'notes_int', 'notes_big'] as const

/** The id of each table's tenant, and ids that are the same value of the column's type, or none. */
const ids: Record<typeof tables[number], { own: string, others: string[] }> = {
  notes_uuid: {
    own: 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    others: ['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'a0eebc999c0b4ef8bb6d6bb9bd380a11', 'a0eebc99-9c0b4ef8-bb6d-6bb9bd380a11', 'acme']
  },
  notes_small: { own: '7', others: ['07', '0x7', '0b111', '32768', '7a'] },
  notes_int: { own: '-7', others: ['-07', '-0x7', '2147483648', '-0'] },
  notes_big: { own: '70', others: ['070', '7_0', '9223372036854775808', '99999999999999999999'] }
}

const types = { notes_uuid: 'uuid', notes_small: 'smallint', notes_int: 'integer', notes_big: 'bigint' }

const as = (tenant: string, scope: Partial<Scope> = {}): Partial<Scope> => ({ ...scope, tenant: scopeTenant(tenant) })

async function withTables (library: Library, work: () => Promise<void>): Promise<void> {
  await library.sql('create table boxes (id integer primary key, tenant_id text not null)')
  for (const table of tables) {
    const columns = `id integer primary key, tenant_id ${types[table]} not null`
    await library.sql(`create table ${table} (${columns}, title text, box integer references boxes)`)
    await library.sql(`create table ${table}_lines (${columns}, note integer references ${table})`)
  }
  await library.engine.refresh()
  try {
    await work()
  } finally {
    for (const table of tables) await library.sql(`drop table ${table}_lines, ${table}`)
    await library.sql('drop table boxes')
  }
}

/** Every operation on rows of the table; the tenant has the rows 1 and 9. */
function operationsOn (table: string): [name: string, query: Query, scope: Partial<Scope>][] {
  const lines = `${table}_lines`
  const id = '{{params.id}}'
  return [
    ['select', { table, operation: 'select' }, {}],
    ['one row', { table, operation: 'select', id }, { params: { id: '1' } }],
    ['aggregate', { table, operation: 'select', select: 'count()' }, {}],
    ['embed', { table, operation: 'select', select: `id, ${lines}(id)` }, {}],
    ['embedded', { table: 'boxes', operation: 'select', select: `id, ${table}(id)` }, {}],
    ['insert', { table, operation: 'insert' }, { body: { id: 2, title: 'new' } }],
    ['insert of several', { table, operation: 'insert' }, { body: [{ id: 3 }, { id: 4, title: 'new' }] }],
    ['upsert', { table, operation: 'upsert' }, { body: { id: 1, title: 'changed' } }],
    ['upsert of several', { table, operation: 'upsert' }, { body: [{ id: 1, title: 'changed' }, { id: 5 }] }],
    ['update', { table, operation: 'update', id }, { params: { id: '1' }, body: { title: 'changed' } }],
    ['reference', { table: lines, operation: 'insert' }, { body: { id: 1, note: 1 } }],
    ['delete', { table, operation: 'delete', id }, { params: { id: '9' } }]
  ]
}

onEachEngine('', {
  'no other spelling of an id reaches the rows of its tenant': (t, library) =>
    withTables(library, async () => {
      for (const table of tables) {
        const { own, others } = ids[table]
        const stored = () => library.sql(`select id, tenant_id::text as tenant, title from ${table} order by id`)
        await library.run({ table, operation: 'insert' }, as(own, { body: [{ id: 1, title: 'secret' }, { id: 9, title: 'secret' }] }))
        for (const tenant of others) {
          for (const [name, query, scope] of operationsOn(table)) {
            t.strictSame(await refusalOf(library.run(query, as(tenant, scope))), {
              status: 400,
              code: 'TENANTRY_TENANT_INVALID'
            }, `${table}: ${name} as ${tenant}`)
          }
        }
        t.strictSame(await stored(), [1, 9].map((id) => ({ id, tenant: own, title: 'secret' })))

        for (const [, query, scope] of operationsOn(table)) await library.run(query, as(own, scope))
        const titles = ['changed', 'new', null, 'new', null]
        t.strictSame(await stored(), titles.map((title, index) => ({ id: index + 1, tenant: own, title })), `${table} as ${own}`)
      }
    })
})
