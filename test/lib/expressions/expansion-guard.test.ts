import { test } from 'tap'
import { ExpansionBudget } from '../../../lib/expressions/expansion-guard.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import { maxResultBytes } from '../../../lib/expressions/result.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { parseJson } from '../../../lib/json/parse.js'
import type { Route } from '../../../lib/schema/route.js'
import { compile } from '../compiler/routes.js'

const times = <Item>(length: number, item: (index: number) => Item): Item[] => Array.from({ length }, (_, index) => item(index))
const members = (count: number, template: (index: number) => unknown) =>
  Object.fromEntries(times(count, (index) => [`f${index}`, template(index)]))
const echo = (response: object): Route => ({ path: '/x', method: 'post', response })
const sent = (body: unknown): Scope => ({ ...noScope, body, headers: { 'content-length': String(Buffer.byteLength(JSON.stringify(body))) } })
const tooLarge = { code: 'TENANTRY_ANSWER_TOO_LARGE' }

test('a route with few templates is not measured', async (t) => {
  t.equal(compile(echo(members(4, () => '{{body.text}}'))).expansionGuards, null)
  t.equal(
    compile({
      path: '/x',
      method: 'get',
      queries: [{ table: 'countries', operation: 'select' }],
      response: { all: '{{results.countries}}', now: '{{now()}}' }
    }).expansionGuards,
    null
  )
  t.equal(compile(echo(members(100, () => '{{now()}} {{uuid()}} {{ 5 }}'))).expansionGuards, null, 'none of their values is large')
})

test('a response with too many copies of a value is rejected before it is built', async (t) => {
  const check = (response: object) => compile(echo(response)).expansionGuards?.response
  const text = (length: number) => sent({ text: 'x'.repeat(length) })
  const copied = check(members(100, () => '{{body.text}}'))
  t.throws(() => copied?.(text(200_000), 0), tooLarge)
  t.doesNotThrow(() => copied?.(text(160_000), 0))
  t.throws(() => copied?.(sent({ text: '"'.repeat(100_000) }), 0), tooLarge, 'a character that JSON escapes counts with its escape')
  t.throws(() => copied?.({ ...text(200_000), headers: {} }, 0), tooLarge, 'a body that arrived in chunks')
  t.throws(() => check({ all: '{{body.text}}'.repeat(100) })?.(text(200_000), 0), tooLarge, 'in one text')
  t.throws(() => check({ all: '{{query.none || body.text}}'.repeat(100) })?.(text(200_000), 0), tooLarge, 'as an alternative')
  t.throws(() => check(members(20, () => '{{body}}'))?.(sent(members(20_000, (index) => index)), 0), tooLarge, 'many small members')
  t.doesNotThrow(
    () => check(members(100, (index) => `{{body.f${index}}}`))?.(sent(members(100, () => 'x'.repeat(100_000))), 0),
    'each of many fields once'
  )
  let deep: unknown = 'x'
  for (let depth = 0; depth < 100_000; depth++) deep = [deep]
  t.doesNotThrow(
    () => check(members(2, () => ['{{body.deep}}', ...times(5, () => '{{body.text}}')]))?.({ ...noScope, body: { deep } }, 0),
    'a value that nests deeper than the stack'
  )
})

test('copied results are measured by their size', async (t) => {
  const check = compile({
    path: '/x',
    method: 'get',
    queries: [{ table: 'countries', operation: 'select' }],
    response: members(10, () => '{{results.countries.data}}')
  }).expansionGuards?.response
  const scope = { ...noScope, results: { countries: { data: ['x'.repeat(2_000_000)] } } }
  t.throws(() => check?.(scope, 2_000_000), tooLarge)
  t.doesNotThrow(() => check?.(scope, 1_000), 'a small result is not measured')
})

test("a query's written data is bounded like a response", async (t) => {
  const { expansionGuards } = compile({
    path: '/x',
    method: 'post',
    queries: [{ table: 'countries', operation: 'insert', data: { code: 'x', name: '{{body.text}}'.repeat(100) } }]
  })
  t.equal(expansionGuards?.response, null)
  t.throws(() => expansionGuards?.queries[0]?.(sent({ text: 'x'.repeat(200_000) }), 0), tooLarge)
})

test('the digits of a long number count, alone and as a member', async (t) => {
  const digits = 1000
  const long = parseJson('9'.repeat(digits))
  const most = Math.floor(maxResultBytes / digits)
  t.equal(new ExpansionBudget().take(long, most), true)
  t.equal(new ExpansionBudget().take(long, most + 1), false)
  t.equal(
    new ExpansionBudget().take({ n: long }, Math.floor(maxResultBytes / (digits + 17))),
    true,
    'a member of a result counts 16 bytes, its name and its digits'
  )
  t.equal(new ExpansionBudget().take({ n: long }, Math.floor(maxResultBytes / (digits + 17)) + 1), false)
  t.equal(new ExpansionBudget().take(parseJson('7'), maxResultBytes), true, 'a short number counts one byte')
})
