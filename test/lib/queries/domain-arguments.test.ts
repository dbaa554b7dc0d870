/** Arguments of SQL functions whose types are domains. */
import { test } from 'tap'
import type { Scope } from '../../../lib/expressions/types.js'
import { noTenant } from '../../../lib/identity/tenant-ref.js'
import type { Query } from '../../../lib/schema/query.js'
import { onEachEngine, run } from '../database/open.js'
import { compile, scopeOf } from './helpers.js'

const functions = {
  described: {
    arguments: { tags: 'more_tags', docs: 'doc[]', doc: 'doc', amount: 'amount', code: 'code' },
    tenantScoped: false
  }
}

const query: Query = {
  operation: 'call',
  function: 'described',
  arguments: { tags: '{{body.tags}}', docs: '{{body.docs}}', doc: '{{body.doc}}', amount: '{{body.amount}}', code: '{{body.code}}' }
}

test('an argument of a domain takes the values of the type behind it', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create domain tags as text[]',
      'create domain more_tags as tags check (cardinality(value) < 3)',
      'create domain doc as jsonb',
      'create domain amount as integer',
      'create domain code as varchar(3)',
      `create function described (tags more_tags, docs doc[], doc doc, amount amount, code code) returns jsonb immutable language sql
        as 'select jsonb_build_array(tags, docs, doc, amount, code)'`
    )
    const catalogue = await engine.refresh()
    const call = async (called: Query, scope: Partial<Scope>): Promise<unknown> => {
      const { statement, values } = compile(called, { catalogue, functions }).bind(scopeOf(scope))
      return JSON.parse(await engine.text(statement, values, { tenant: noTenant }) ?? 'null')
    }
    const body = { tags: ['a', 'b,c'], docs: [{ a: 1 }, [2]], doc: { a: [1] }, amount: 3, code: 'abc' }
    t.strictSame(await call(query, { body }), { result: Object.values(body) })
    const ofUrl: Query = { ...query, arguments: { ...query.arguments, tags: '{{query.tags}}' } }
    t.strictSame(await call(ofUrl, { body, query: { tags: 'a,b' } }), { result: [['a', 'b'], ...Object.values(body).slice(1)] })

    const reasons = { tags: 'an array (text[])', docs: 'an array (doc[])', amount: 'an integer (integer)' }
    for (const [name, reason] of Object.entries(reasons)) {
      await t.rejects(call(query, { body: { ...body, [name]: 'x' } }), {
        code: 'TENANTRY_VALIDATION_FAILED',
        extras: { details: [{ path: `/body/${name}`, message: `the argument "${name}" must be ${reason}` }] }
      }, name)
    }
    await t.rejects(call(query, { body: { ...body, tags: ['a', 'b', 'c'] } }), { code: 'TENANTRY_CONSTRAINT_VIOLATED' }, 'the check of the domain')
    await t.rejects(call(query, { body: { ...body, code: 'long' } }), { code: 'TENANTRY_INVALID_VALUE' }, 'the text is not cut')
  }))
