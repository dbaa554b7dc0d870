/** Columns whose values name objects of the database, such as `regclass`. */
import { test } from 'tap'
import type { Scope } from '../../../lib/expressions/types.js'
import type { Query } from '../../../lib/schema/query.js'
import { onEachEngine, rejection, run, withoutTenant } from '../database/open.js'
import { compile, scopeOf } from './helpers.js'

test('a value that names no object is a 400 in filters and writes', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create table logs (id int primary key, source regclass, kind regtype)',
      "insert into logs values (1, 'logs', 'integer'), (2, 'pg_class', 'text')"
    )
    const catalogue = await engine.refresh()
    const ask = (query: Query, scope: Partial<Scope>): Promise<string | null> => {
      const { statement, values } = compile(query, { catalogue }).bind(scopeOf(scope))
      return engine.text(statement, values, withoutTenant)
    }
    const filtered = (column: string, operator: 'eq' | 'neq' | 'gt' | 'in'): Query => ({
      table: 'logs',
      operation: 'select',
      select: 'id',
      filters: [{ column, operator, value: '{{query.v}}' }]
    })
    const insert: Query = { table: 'logs', operation: 'insert' }
    const update: Query = { table: 'logs', operation: 'update', id: 1 }

    for (const v of ['logs', 'public.logs']) t.match(await ask(filtered('source', 'eq'), { query: { v } }), /"id":1/, v)
    t.match(await ask(filtered('kind', 'in'), { query: { v: 'int4,bool' } }), /"id":1/)
    t.match(await ask(insert, { body: { id: 3, source: 'logs', kind: 'text' } }), /"id":3/)

    const refused = async (query: Query, scope: Partial<Scope>, about: string) => {
      t.match(await rejection(ask(query, scope)), { code: 'TENANTRY_INVALID_VALUE', statusCode: 400 }, about)
    }
    for (const operator of ['eq', 'neq', 'gt', 'in'] as const) {
      for (const v of ['zzz', 'zzz.t']) await refused(filtered('source', operator), { query: { v } }, `${operator} ${v}`)
      for (const v of ['zzz', '-1']) await refused(filtered('kind', operator), { query: { v } }, `${operator} ${v}`)
    }
    await refused(insert, { body: { id: 4, source: 'zzz' } }, 'insert')
    await refused(insert, { body: [{ id: 4, source: 'zzz' }] }, 'insert of a list')
    await refused(insert, { body: [{ id: 4, kind: '-1' }] }, 'insert of a list')
    await refused(update, { body: { kind: '-1' } }, 'update')
  }))
