import { test } from 'tap'
import type { Route } from '../../../lib/schema/route.js'
import { scopeOf } from '../queries/helpers.js'
import { compile, documented, faultsOf } from './routes.js'

const limited = (amount?: number | string): Route => ({
  path: '/x/:id',
  method: 'post',
  requireAuth: true,
  response: { ok: true },
  resourceLimit: { resource: 'llm', metric: 'tokens', ...amount !== undefined && { amount } }
})
const most = Number.MAX_SAFE_INTEGER

test('the usage of a request is compiled once', async (t) => {
  t.equal(compile({ path: '/x', method: 'get', response: {} }).resourceLimit, null)
  const one = compile(limited()).resourceLimit
  t.match(one, { resource: 'llm', metric: 'tokens' })
  t.ok(Object.isFrozen(one))
  t.equal(one?.amount(scopeOf()), 1)
  t.equal(compile(limited(most)).resourceLimit?.amount(scopeOf()), most)
  t.equal(compile(limited('{{env.COST}}'), { env: { COST: '12' } }).resourceLimit?.amount(scopeOf()), 12, 'settings are texts')
  t.equal(compile(limited('{{body.n}}')).resourceLimit?.amount(scopeOf({ body: { n: 5 } })), 5)
  t.equal(compile(limited('{{body.a.b.1}}')).resourceLimit?.amount(scopeOf({ body: { a: { b: [1, 6] } } })), 6)
  t.equal(compile(limited('{{body.n || 3}}')).resourceLimit?.amount(scopeOf({ body: {} })), 3)
  t.match(documented(limited()).errors, [400, 401, 'resourceLimit', 403, 409, 413, 415, 429, 500, 503])
})

test('an amount of the path or the query string needs no declaration as a number', async (t) => {
  const amount = (text: string, changes: Parameters<typeof scopeOf>[0]) => compile(limited(text)).resourceLimit?.amount(scopeOf(changes))
  t.equal(amount('{{query.n}}', { query: { n: '5' } }), 5)
  t.equal(amount('{{query.n}}', { query: { n: 5 } }), 5, 'a declared one is a number already')
  t.equal(amount('{{query.n || 3}}', { query: {} }), 3)
  t.equal(amount('{{params.id}}', { params: { id: '12' } }), 12)
})

test('an invalid amount is rejected with the member that it came from', async (t) => {
  const { resourceLimit } = compile(limited('{{body.order.n}}'))
  for (const n of [0, -1, -0, 0.5, NaN, Infinity, 2 ** 53, '5', '', null, undefined, true, [5], { valueOf: () => 5 }]) {
    t.throws(() => resourceLimit?.amount(scopeOf({ body: { order: { n } } })), {
      code: 'TENANTRY_VALIDATION_FAILED',
      extras: {
        details: [{ path: '/body/order/n', message: `must be a whole number from 1 to ${most}, the amount that the request uses` }]
      }
    }, String(n))
  }
  const refusedAt = (path: string) => ({ code: 'TENANTRY_VALIDATION_FAILED', extras: { details: [{ path }] } })
  t.throws(() => resourceLimit?.amount(scopeOf({ body: 'text' })), refusedAt('/body/order/n'))
  for (const n of ['0', '-1', '1.5', '1e3', ' 5', '', '9007199254740992', '00000000000000005', ['5']]) {
    t.throws(() => compile(limited('{{query.n}}')).resourceLimit?.amount(scopeOf({ query: { n } })), refusedAt('/query/n'), String(n))
  }
  const mixed = compile(limited('{{query.n || body.n}}')).resourceLimit
  t.throws(() => mixed?.amount(scopeOf({ body: { n: '5' } })), refusedAt('/query/n'), 'a text of the body is no number')
  t.throws(() => compile(limited('{{auth.weight}}')).resourceLimit?.amount(scopeOf()), refusedAt('/auth/weight'))
})

test('an amount that can never be valid is a fault', async (t) => {
  for (
    const [amount, message] of [
      ["{{'five'}}", `expected a whole number from 1 to ${most}`],
      ['{{0}}', /expected a whole number/],
      ['{{env.COST}}', /expected a whole number/],
      ['{{secret:KEY}}', /`secret` is not available here: expected one of env, body, params, query, auth, tenant/],
      ['{{results.notes}}', /`results` is not available here/],
      ['{{headers.x-cost}}', /`headers` is not available here/],
      ['{{uuid()}}', /`uuid` is not available here/],
      ['{{params.other}}', /the path has no parameter "other"/],
      ['{{boody.n}}', /did you mean "body"/]
    ] as const
  ) {
    t.match(faultsOf(limited(amount), { env: { COST: '1.5' } }), [
      typeof message === 'string' ? `/routes/0/resourceLimit/amount: ${message}` : message
    ], amount)
  }
})
