/**
 * Random requests to every kind of route: never a 500, never a crash, never another tenant's row. Bounded and seeded: TENANTRY_FUZZ_SEED
 * and TENANTRY_FUZZ_COUNT run a different or a longer sequence.
 */
import { test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { seededRandom } from '../helpers/random.js'
import { listen, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, remoteCaller, type Request } from './caller.js'
import { everyKind, routes, tables } from './document.js'

const seed = Number(process.env['TENANTRY_FUZZ_SEED'] ?? 20_261_121)
const count = Number(process.env['TENANTRY_FUZZ_COUNT'] ?? 2000)
const atOnce = 8 // so that requests compete for the pool

/** A text that only the victim's rows contain. */
const marker = 'VICTIM-9f2c'

const texts = [
  '',
  ' ',
  '0',
  '-1',
  '1',
  '1.5',
  '1e400',
  'NaN',
  'null',
  'true',
  'false',
  'x',
  'title',
  "'",
  '"',
  '\\',
  '%',
  '_',
  '%%',
  '{',
  '}',
  '{}',
  '[]',
  '{"a":1}',
  '{a,b}',
  '(',
  '*',
  '--',
  ';',
  '$1',
  '::',
  '\0',
  '\u0001',
  '\ud800',
  '\uffff',
  '🎉',
  'ä',
  '\u202e',
  '../..',
  '/',
  '//',
  '?',
  '#',
  '&',
  '=',
  '+',
  '%00',
  '%ff',
  '{{env.PATH}}',
  '{{auth.sub}}',
  '{{',
  "' or 1=1 --",
  "'; drop table notes; --",
  '__proto__',
  'constructor',
  'prototype',
  'hasOwnProperty',
  'length',
  'tenant_id',
  '2026-02-30',
  '2026-01-31',
  'infinity',
  'now',
  '10000-01-01',
  '2026-01-31T12:00:00Z',
  '10.1.2.3',
  '00000000-0000-4000-8000-000000000000',
  '2147483648',
  '9223372036854775808',
  '99999999999999999999',
  'x'.repeat(300),
  'ÿ'.repeat(3000),
  '1,2,3',
  'a,b',
  'unknown'
]
const numbers = [0, -0, 1, -1, 0.1, 1.5, 32_768, 2_147_483_647, 2_147_483_648, -2_147_483_649, 9_007_199_254_740_992, 1e20, 1e308, 5e-324]
const columns = [...Object.keys(tables.notes.columns), 'tenant_id', 'deleted', 'deleted_at', 'name', 'email']
const queryNames = [
  'limit',
  'offset',
  'q',
  'title',
  'like',
  'rank',
  'ids',
  'tag',
  'before',
  'done',
  'extra',
  'word',
  'page',
  'name',
  'gt',
  'tags',
  'k',
  'hard',
  'select',
  'order',
  'tenant_id'
]
const headerNames = [
  'x-title',
  'accept-language',
  'user-agent',
  'x-request-id',
  'x-forwarded-for',
  'if-match',
  'cookie',
  'x-tenant',
  'origin',
  'accept',
  'x-http-method-override',
  'expect-ct'
]

test('random requests cause no 500, no crash and no leak', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const app = await testServer(t, everyKind, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['a', 'b', 'victim']
  })
  const local = caller(t, app)
  const remote = remoteCaller(t, await listen(app))
  const victim = caller(t, app, { tenant: 'victim' })
  const author = (await victim('POST /people', { body: { name: marker, email: marker } })).body
  const note = (await victim('POST /notes', {
    body: { title: marker, body: marker, tags: [marker], extra: { [marker]: marker }, rank: 1, code: marker, author_id: author['id'] }
  })).body
  await victim('PUT /docs/shared', { body: { name: marker, a: { b: 5 }, tags: ['x'] } })
  const rows = () =>
    query(
      "select (select json_agg(n) from notes n where tenant_id = 'victim')::text as notes, (select json_agg(p) from people p where tenant_id = 'victim')::text as people, (select json_agg(d) from tenantry.documents d where tenant_id = 'victim')::text as documents"
    )
  const before = await rows()

  const random = seededRandom(seed)
  const below = (limit: number) => Math.floor(random() * limit)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const chance = (probability: number) => random() < probability
  const ids = [String(note['id']), String(author['id']), 'shared']
  for (const tenant of ['a', 'b']) {
    for (const target of ['POST /notes', 'POST /people', 'POST /docs']) {
      ids.push(String((await local(target, { tenant, body: target === 'POST /notes' ? { title: 'x' } : { name: 'x' } })).body['id']))
    }
  }
  const text = () => chance(0.2) ? pick(ids) : chance(0.15) ? pick(texts) + pick(texts) : pick(texts)

  const value = (depth: number): unknown => {
    const kind = below(depth > 4 ? 6 : 9)
    if (kind < 3) return text()
    if (kind === 3) return pick(numbers)
    if (kind === 4) return chance(0.5)
    if (kind === 5) return null
    if (kind === 6) return Array.from({ length: below(4) }, () => value(depth + 1))
    return record(depth + 1)
  }
  const record = (depth: number): Record<string, unknown> =>
    Object.fromEntries(Array.from({ length: below(6) }, () => [chance(0.75) ? pick(columns) : text(), value(depth)]))
  const body = (): string => {
    // Half of the bodies are nearly valid, so that they reach the database.
    const one = () =>
      chance(0.5) ? { title: text(), name: text(), ...record(1) } : chance(0.5) ? { title: 'x', [pick(columns)]: value(1) } : record(1)
    let raw = JSON.stringify(chance(0.2) ? Array.from({ length: below(5) }, one) : chance(0.1) ? value(0) : one())
    if (chance(0.1)) raw = raw.slice(0, below(raw.length + 1))
    if (chance(0.1)) raw = raw.slice(0, below(raw.length)) + text() + raw.slice(below(raw.length))
    return raw
  }
  const encoded = (raw: string) => chance(0.9) ? encodeURIComponent(Buffer.from(raw).toString()) : raw.replace(/[^\x21-\x7e]/g, '.')
  const target = () => {
    const route = pick(routes)
    let path: string = route.path.replace(/:\w+/g, () => encoded(text()))
    if (chance(0.05)) path += encoded(text())
    const pairs = Array.from(
      { length: chance(0.6) ? below(4) : 0 },
      () => `${chance(0.85) ? pick(queryNames) : encoded(text())}=${encoded(text())}`
    )
    const method = chance(0.93) ? route.method.toUpperCase() : pick(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'])
    return `${method} ${path}${pairs.length > 0 ? `?${pairs.join('&')}` : ''}`
  }
  const good = {
    a: [signToken({ tenant_id: 'a' }), signToken({ tenant_id: 'a', permissions: ['*'] })],
    b: [signToken({ tenant_id: 'b', role: 'admin' }), signToken({ tenant_id: 'b' })]
  }
  const bad = [
    signToken({}),
    signToken({ tenant_id: 'victim' }, { algorithm: 'none' }),
    signToken({ tenant_id: 'a' }, { expiresIn: -60 }),
    'x.y.z'
  ]
  const headerValue = () => text().replace(/[^\x20-\x7e]/g, '').trim()
  const identity = (): Request => {
    const tenant = pick(['a', 'b'] as const)
    const token = chance(0.05) ? pick(bad) : chance(0.05) ? pick(good[pick(['a', 'b'] as const)]) : pick(good[tenant])
    return { ...(chance(0.85) && { tenant: chance(0.97) ? tenant : headerValue() }), ...(chance(0.4) && { token }) }
  }
  const request = (method: string): Request => ({
    ...identity(),
    ...(method !== 'GET' && method !== 'HEAD' && chance(0.95) &&
      { raw: body(), ...(chance(0.03) && { type: pick(['text/plain', 'application/json; charset=utf-16', 'json']) }) }),
    headers: Object.fromEntries(Array.from({ length: chance(0.2) ? below(3) : 0 }, () => [pick(headerNames), headerValue()]))
  })

  const statuses = new Map<number, number>()
  const faults: string[] = []
  for (let sent = 0; sent < count; sent += atOnce) {
    await Promise.all(Array.from({ length: Math.min(atOnce, count - sent) }, async (_, index) => {
      const label = target()
      const message = request(label.slice(0, label.indexOf(' ')))
      const response = await (index === 0 ? remote : local)(label, message)
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      if (response.status >= 500 || response.text.includes(marker)) {
        faults.push(`${label} ${JSON.stringify(message)}: ${response.status} ${response.text}`)
      }
    }))
  }
  t.strictSame(faults, [], `seed ${seed}`)
  t.strictSame(await rows(), before, "the victim's rows are unchanged")
  t.equal((await local('GET /notes', { tenant: 'a' })).status, 200, 'the server still serves')
  const shown = [...statuses].sort().map(([status, times]) => `${status}: ${times}`).join(', ')
  t.ok((statuses.get(200) ?? 0) > count / 10 && (statuses.get(201) ?? 0) > count / 50, `enough requests succeeded: ${shown}`)
})
