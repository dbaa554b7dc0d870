/** Keys whose check can wait until the commit. */
import { test } from 'tap'
import type { Query } from '../../../lib/schema/query.js'
import { onEachEngine, run } from '../database/open.js'
import { faultsOf } from './helpers.js'

test('an upsert by a key that is deferrable is a fault', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create table parts (id int primary key deferrable, tenant_id text not null, code text, place int, unique (tenant_id, code) deferrable initially deferred, unique (place))',
      'create table marks (id int primary key, code text unique deferrable)',
      'create unique index on marks (code)'
    )
    const catalogue = await engine.refresh()
    const reason = (key: string, table = 'parts') =>
      `an upsert cannot find its row by (${key}), since this key of "${table}" is DEFERRABLE: make it NOT DEFERRABLE, or name another key in \`onConflict\``
    const upsert = (table: string, ...onConflict: string[]): Query => ({
      table,
      operation: 'upsert',
      ...onConflict.length > 0 && { onConflict }
    })
    const cases: readonly (readonly [Query, readonly string[]])[] = [
      [upsert('parts'), [`/q: ${reason('id')}`]],
      [upsert('parts', 'code'), [`/q/onConflict: ${reason('tenant_id, code')}`]],
      [upsert('parts', 'place'), []],
      [upsert('marks', 'code'), [`/q/onConflict: ${reason('code', 'marks')}`]],
      [upsert('marks'), []]
    ]
    for (const [query, faults] of cases) t.strictSame(faultsOf(query, { catalogue }), faults, JSON.stringify(query))
    t.strictSame(faultsOf({ table: 'parts', operation: 'update', id: '{{params.id}}' }, { catalogue }), [], 'other writes use it')
  }))
