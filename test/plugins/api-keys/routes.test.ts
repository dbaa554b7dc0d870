import { sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import { forEachEngine, postgresDatabase } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { open, platformKey, postgresSection, statuses } from '../auth/app.js'
import { countReads, guessedKey, makeKey, rotateKey } from './key.js'

const admin = (tenant: string) => ({ role: 'admin', tenant_id: tenant, sub: `admin of ${tenant}` })

test('a key acts for its tenant with its scopes, is shown once, and only its hash is stored', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, as } = await open(t, engine, { tenants: ['acme', 'globex'] })
    const [acme, globex] = [as(admin('acme')), as(admin('globex'))]
    t.same((await acme('GET /tenant/api-keys')).body, { data: [], pagination: { limit: 20, offset: 0, total: 0 } })

    const response = await acme('POST /tenant/api-keys', {
      body: { name: 'CI', scopes: ['articles:*'], expiresAt: '2999-01-01T00:00:00+01:00' }
    })
    t.equal(response.status, 201)
    t.equal(response.headers['cache-control'], 'no-store')
    const { key: shown, ...described } = response.body
    const [id, key] = [String(described['id']), String(shown)]
    t.match(key, new RegExp(`^tnt_${id}_[A-Za-z0-9_-]{43}$`))
    t.match(described, {
      name: 'CI',
      scopes: ['articles:*'],
      createdBy: 'admin of acme',
      createdAt: /^20\d\d-.*Z$/,
      expiresAt: '2998-12-31T23:00:00.000Z',
      lastUsedAt: null
    })
    t.same((await acme('GET /tenant/api-keys')).body, { data: [described], pagination: { limit: 20, offset: 0, total: 1 } })

    const holder = as(key)
    t.same((await holder('GET /who')).body, {
      auth: { sub: `api-key:${id}`, tenant_id: 'acme', permissions: ['articles:*'], api_key: id },
      tenant: 'acme'
    })
    t.same(await statuses(holder, '/read', '/write', '/administrators', '/platform', '/tenant/api-keys', '/tenant/rbac'), {
      '/read': 200,
      '/write': 200,
      '/administrators': 403,
      '/platform': 403,
      '/tenant/api-keys': 403,
      '/tenant/rbac': 200
    })
    const bare = await makeKey(t, acme)
    t.same(await statuses(as(bare.key), '/who', '/read'), { '/who': 200, '/read': 403 })

    refused(t, await holder('GET /who', { tenant: 'globex' }), 403, 'TENANT_MISMATCH', "another tenant's id")
    t.equal((await holder('GET /who', { tenant: 'acme' })).status, 200)
    t.same((await globex('GET /tenant/api-keys')).body, { data: [], pagination: { limit: 20, offset: 0, total: 0 } })
    refused(t, await globex(`DELETE /tenant/api-keys/${id}`), 404, 'NOT_FOUND', "another tenant's key")
    refused(t, await globex(`POST /tenant/api-keys/${id}/rotate`), 404, 'NOT_FOUND', "another tenant's key")
    t.equal((await holder('GET /read')).status, 200)

    const rotated = await rotateKey(t, acme, id)
    t.not(rotated, key)
    refused(t, await holder('GET /who'), 401, 'TOKEN_INVALID', 'the previous key')
    t.equal((await as(rotated)('GET /write')).status, 200)
    const again = await rotateKey(t, acme, bare.id.toUpperCase())
    t.equal((await as(again)('GET /who')).status, 200, 'the id of a rotated key may have capital letters')

    const { rows } = await sql`select to_jsonb(k)::text || encode(k.hash, 'escape') as text from tenantry.api_keys k`.execute(app.db)
    t.equal(rows.length, 2)
    for (const [index, text] of [key, rotated, bare.key, again].entries()) {
      const secret = text.slice(-43)
      t.notOk(
        JSON.stringify(rows).includes(secret) || JSON.stringify(rows).includes(Buffer.from(secret, 'base64url').toString('hex')),
        `nothing of key ${index} is in the table`
      )
    }

    t.same((await acme(`DELETE /tenant/api-keys/${id}`)).body, { success: true })
    refused(t, await as(rotated)('GET /who'), 401, 'TOKEN_INVALID', 'a deleted key')
    refused(t, await acme(`DELETE /tenant/api-keys/${id}`), 404, 'NOT_FOUND')
    refused(t, await acme(`POST /tenant/api-keys/${id}/rotate`), 404, 'NOT_FOUND')
    t.equal((await as(again)('GET /who')).status, 200)
  }))

test('unknown keys are rejected, and guesses evict no real key from the cache', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'], plugins: ['api-keys'] })
  const [first, second] = [await makeKey(t, as(admin('acme'))), await makeKey(t, as(admin('globex')))]
  const mixed = `tnt_${first.id}_${second.key.slice(-43)}`
  for (
    const key of [
      mixed,
      guessedKey(first, 0),
      first.key.slice(0, -1),
      `${first.key}A`,
      first.key.toUpperCase(),
      first.key.slice(4),
      `${first.key}, ${first.key}`,
      "tnt_' or 1=1 --"
    ]
  ) {
    refused(t, await as(key)('GET /who'), 401, 'TOKEN_INVALID')
  }
  t.equal((await as(first.key)('GET /who')).status, 200)

  const reads = countReads(t, app)
  for (let index = 1; index <= 1100; index++) await app.inject({ url: '/who', headers: { 'x-api-key': guessedKey(first, index) } })
  t.equal(reads(), 1100)
  t.equal((await as(first.key)('GET /who')).status, 200)
  for (let index = 0; index < 20; index++) refused(t, await as(guessedKey(first, 1100))('GET /who'), 401, 'TOKEN_INVALID')
  t.equal(reads(), 0, 'the real key and the latest guess are cached')
})

test('a caller who is not an administrator creates and rotates only keys with its own scopes', async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const acme = as(admin('acme'))
  const maker = as({ tenant_id: 'acme', permissions: ['api-keys:write', 'articles:read', 'files:*'] })
  for (
    const [scopes, exceeding] of [
      [['articles:read', 'files:read', 'files:*', 'api-keys:write'], null],
      [[], null],
      [['articles:read', 'articles:write'], 'articles:write'],
      [['articles:*'], 'articles:*'],
      [['*'], '*'],
      [['api-keys:*'], 'api-keys:*']
    ] as const
  ) {
    const response = await maker('POST /tenant/api-keys', { body: { name: 'x', scopes } })
    if (exceeding === null) t.equal(response.status, 201)
    else {
      refused(t, response, 403, 'GRANT_EXCEEDS', exceeding)
      t.match(response.body, { permission: exceeding })
    }
  }

  const child = as((await makeKey(t, maker, { scopes: ['api-keys:write', 'files:read'] })).key)
  t.equal((await child('POST /tenant/api-keys', { body: { name: 'x', scopes: ['files:read'] } })).status, 201)
  refused(
    t,
    await child('POST /tenant/api-keys', { body: { name: 'x', scopes: ['articles:read'] } }),
    403,
    'GRANT_EXCEEDS',
    'a key creates no key with more permissions'
  )

  const strong = await makeKey(t, acme, { scopes: ['*'] })
  refused(t, await maker(`POST /tenant/api-keys/${strong.id}/rotate`), 403, 'GRANT_EXCEEDS', 'only a holder of its scopes rotates a key')
  t.equal((await as(strong.key)('GET /write')).status, 200, 'it still has them')
  t.same(await statuses(as(strong.key), '/platform', '/administrators'), { '/platform': 403, '/administrators': 403 }, '`*` is not a role')

  await acme('PUT /tenant/rbac', { body: { enabled: true, roles: [{ name: 'maker', permissions: ['api-keys:write', 'reports:read'] }] } })
  const byRole = as({ tenant_id: 'acme', role: 'maker' })
  t.equal((await byRole('POST /tenant/api-keys', { body: { name: 'x', scopes: ['reports:read'] } })).status, 201)
  refused(
    t,
    await byRole('POST /tenant/api-keys', { body: { name: 'x', scopes: ['reports:write'] } }),
    403,
    'GRANT_EXCEEDS',
    'a permission that its role does not grant'
  )
})

test('an invalid body is a 400 only for a caller with the permission', async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['api-keys'] })
  const wrong = { nonsense: true }
  refused(t, await as(null)('POST /tenant/api-keys', { body: wrong }), 401, 'TOKEN_MISSING')
  refused(t, await as({ tenant_id: 'acme' })('POST /tenant/api-keys', { body: wrong }), 403, 'FORBIDDEN')
  const acme = as(admin('acme'))
  for (
    const body of [
      wrong,
      {},
      { name: '' },
      { name: 'x'.repeat(201) },
      { name: 'a\u0000' },
      { name: 'a\ud800' },
      { name: 'x', scopes: 'a:b' },
      { name: 'x', scopes: ['a'] },
      { name: 'x', scopes: ['a:'] },
      { name: 'x', scopes: [':a'] },
      { name: 'x', scopes: ['a*:b'] },
      { name: 'x', scopes: [`a:${'b'.repeat(127)}`] },
      { name: 'x', scopes: ['a:b', 'a:b'] },
      { name: 'x', scopes: Array.from({ length: 101 }, (_, index) => `a:${index}`) },
      { name: 'x', expiresAt: '2001-01-01T00:00:00Z' },
      { name: 'x', expiresAt: 'never' },
      { name: 'x', expiresAt: '2999-12-31T23:59:60Z' }
    ]
  ) refused(t, await acme('POST /tenant/api-keys', { body }), 400, 'VALIDATION_FAILED', JSON.stringify(body).slice(0, 60))
  const { id } = await makeKey(t, acme, { scopes: Array.from({ length: 100 }, (_, index) => `a:${index}`) })
  for (const gracePeriodDays of [-1, 91, 1.5, '1']) {
    refused(t, await acme(`POST /tenant/api-keys/${id}/rotate`, { body: { gracePeriodDays } }), 400, 'VALIDATION_FAILED')
  }
  refused(t, await acme('DELETE /tenant/api-keys/1'), 400, 'VALIDATION_FAILED')
})

test("a caller with the platform's key names the tenant of the keys that it creates and lists", async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['api-keys'] })
  const platform = as(platformKey)
  refused(t, await platform('GET /tenant/api-keys'), 400, 'TENANT_REQUIRED')
  t.equal((await platform('GET /tenant/api-keys', { tenant: 'acme' })).status, 200)
  const made = await platform('POST /tenant/api-keys', { tenant: 'acme', body: { name: 'x', scopes: ['*'] } })
  t.match(made.body, { createdBy: 'api-key' })
  t.match((await as(String(made.body['key']))('GET /who')).body, { tenant: 'acme' })
})

test('a tenant has at most 100 keys, also after concurrent creations', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'], plugins: ['api-keys'] })
  const acme = as(admin('acme'))
  await app.db.insertInto('tenantry.api_keys').values(
    Array.from(
      { length: 95 },
      (_, index) => ({ tenant_id: 'acme', name: `${index}`, hash: Buffer.alloc(32), scopes: [], created_by: 'x', previous_hash: null })
    )
  ).execute()
  const responses = await Promise.all(Array.from({ length: 10 }, () => acme('POST /tenant/api-keys', { body: { name: 'x' } })))
  t.equal(responses.filter(({ status }) => status === 201).length, 5)
  for (const response of responses) if (response.status !== 201) refused(t, response, 409, 'CONFLICT')
  t.equal((await as(admin('globex'))('POST /tenant/api-keys', { body: { name: 'x' } })).status, 201)
})

test('a key that is being deleted creates no other key', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { as } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { tenants: ['acme'] })
  const acme = as(admin('acme'))
  const { id, key } = await makeKey(t, acme, { scopes: ['api-keys:*'] })
  const log = new pg.Client({ connectionString })
  await log.connect()
  t.teardown(() => log.end())
  const waiting = async (count: number) =>
    (await query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")).length === count
  await log.query('begin; lock table tenantry.audit_log in exclusive mode')
  const deleted = acme(`DELETE /tenant/api-keys/${id}`)
  await until('the deletion waits', () => waiting(1))
  const created = as(key)('POST /tenant/api-keys', { body: { name: 'another key' } })
  await until('the creation waits', () => waiting(2))
  await log.query('commit')
  t.equal((await deleted).status, 200)
  refused(t, await created, 401, 'TOKEN_INVALID')
  t.match((await acme('GET /tenant/api-keys')).body, { pagination: { total: 0 } })
})
