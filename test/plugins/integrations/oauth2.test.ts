/** OAuth 2.0 with a local token server that rotates refresh tokens: one renewal at a time, across all servers. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { type Remote, remote } from '../../helpers/remote.js'
import { missSuccession } from '../../helpers/succession.js'
import { callOf, connectorsOf, open, scopeOf } from './app.js'

/** A service, and its token server. */
interface Service {
  readonly api: Remote
  readonly tokens: Remote
  /** The tokens that the service accepts. */
  valid: string
  /** The refresh tokens that the token server accepts. */
  refresh: string
  /** Whether each renewal replaces the refresh token. */
  rotates: boolean
  /** Lifetime of the next token in seconds. */
  life: number | undefined
  readonly client: 'header' | 'body'
  /** The grants of the token server, in order: the type and the scope of each. */
  readonly grants: string[]
  /** Refresh tokens that were used twice, for which real servers revoke the authorization. */
  reused: number
  /** Runs before the token server responds. */
  meanwhile?: () => Promise<void>
}

async function service (t: Test, client: Service['client'] = 'header'): Promise<Service> {
  let count = 0
  const used = new Set<string>()
  const api = await remote(t, ({ headers }, response) => {
    if (headers.authorization === `Bearer ${state.valid}`) response.setHeader('content-type', 'application/json').end('{"hello":"world"}')
    else response.writeHead(401).end('{"error":"expired"}')
  })
  const tokens = await remote(t, async ({ headers, body }, response) => {
    const form = new URLSearchParams(body)
    response.setHeader('content-type', 'application/json')
    const inHeader = headers.authorization === `Basic ${Buffer.from('the+client:a%2Fsecret').toString('base64')}`
    const inBody = form.get('client_id') === 'the client' && form.get('client_secret') === 'a/secret'
    if (client === 'header' ? !inHeader || form.has('client_secret') : !inBody) return refuse(401, 'invalid_client')
    const refresh = form.get('refresh_token')
    // Time for concurrent renewals to arrive, if there are any.
    await new Promise((resolve) => setTimeout(resolve, 50))
    await state.meanwhile?.()
    if (form.get('grant_type') === 'refresh_token') {
      if (refresh !== null && used.has(refresh)) state.reused++
      if (refresh !== state.refresh) return refuse(400, 'invalid_grant')
      if (state.rotates) {
        used.add(refresh)
        state.refresh = secretText(`refresh-token-number-${++count}`, 'a refresh token')
      }
    }
    state.grants.push(`${form.get('grant_type')} ${form.get('scope')}`)
    state.valid = secretText(`access-token-number-${++count}-${randomUUID()}`, 'an access token')
    response.end(
      JSON.stringify({
        access_token: state.valid,
        token_type: 'Bearer',
        expires_in: state.life,
        ...form.get('grant_type') === 'refresh_token' && state.rotates && { refresh_token: state.refresh }
      })
    )

    function refuse (status: number, error: string): void {
      response.writeHead(status).end(JSON.stringify({ error }))
    }
  })
  const state: Service = {
    api,
    tokens,
    client,
    valid: 'nothing yet',
    refresh: secretText('refresh-token-of-the-authorization', 'a refresh token'),
    rotates: true,
    life: undefined,
    grants: [],
    reused: 0
  }
  return state
}

function crm (
  { api, tokens }: Service,
  auth: object = { accessToken: '{{secret:CRM_ACCESS}}', refreshToken: '{{secret:CRM_REFRESH}}' },
  secrets = { clientId: '{{secret:CRM_CLIENT}}', clientSecret: '{{secret:CRM_SECRET}}' }
) {
  return [{
    name: 'crm',
    baseUrl: api.origin,
    auth: { type: 'oauth2' as const, tokenUrl: `${tokens.origin}/token`, scope: 'read write', ...secrets, ...auth },
    actions: { hello: { method: 'GET' as const, path: '/hello' } }
  }]
}

async function storeClient (app: FastifyInstance, tenant: string, more: Readonly<Record<string, string>> = {}): Promise<void> {
  for (
    const [key, value] of Object.entries({
      CRM_CLIENT: 'the client',
      CRM_SECRET: secretText('a/secret', 'the secret of the client'),
      ...more
    })
  ) await app.secrets.put(tenant, { key, value }, noActor)
}

const hello = { hello: 'world' }

test('tokens of tenants', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  let now = Date.now()
  const first = await open(t, connectionString, { now: () => now })
  const second = await open(t, connectionString, { now: () => now })
  for (const id of ['acme', 'globex', 'initech', 'umbrella', 'hooli']) await first.tenants.create({ id, name: id, plan: 'pro' })

  const run = async (app: FastifyInstance, tenant: string, integrations: ReturnType<typeof crm>): Promise<unknown> =>
    await app.integrations.run(callOf(connectorsOf(integrations), 'crm', 'hello'), await scopeOf(app, tenant), { tenant: tenantRef(tenant), log: app.log })

  /** Lets the database refuse new values of the tenant's secrets, by a pattern of their keys. Returns the function that ends this. */
  const refuseTokens = async (tenant: string, keys: string) => {
    await sql`create function tenantry.refuse_secret() returns trigger language plpgsql as $$ begin raise 'not now'; end $$`.execute(first.db)
    await sql`create trigger refuse_secret before update on tenantry.secrets for each row
      when (new.tenant_id = ${sql.lit(tenant)} and new.key like ${sql.lit(keys)} and new.version > old.version)
      execute function tenantry.refuse_secret()`.execute(first.db)
    return () => sql`drop function tenantry.refuse_secret() cascade`.execute(first.db)
  }

  await t.test('a rejected token is renewed once for concurrent calls on two servers', async (t) => {
    const state = await service(t)
    const integrations = crm(state)
    await storeClient(first, 'acme', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    for (const round of [1, 2, 3]) {
      const calls = Array.from({ length: 20 }, (_item, index) => run(index % 2 === 0 ? first : second, 'acme', integrations))
      for (const result of await Promise.all(calls)) t.same(result, hello)
      t.equal(state.grants.length, round, 'one renewal')
      t.equal(state.reused, 0)
      t.equal(await first.secrets.get('acme', 'CRM_ACCESS'), state.valid, "the token is the tenant's secret")
      t.equal(await first.secrets.get('acme', 'CRM_REFRESH'), state.refresh, 'so is the refresh token')
      state.valid = 'revoked'
    }
    t.same(state.grants[0], 'refresh_token read write')
    const leases = await first.db.selectFrom('tenantry.oauth_tokens').selectAll().where('tenant_id', '=', 'acme').execute()
    t.match(leases, [{ key: 'CRM_ACCESS', holder: null, leased_until: null }])
  })

  await t.test('a token is renewed before it expires', async (t) => {
    const state = await service(t, 'body')
    state.life = 3600
    const integrations = crm(state, { refreshToken: '{{secret:CRM_REFRESH}}' })
    await storeClient(first, 'globex', { CRM_REFRESH: state.refresh })
    t.same(await run(first, 'globex', integrations), hello, 'without an initial token')
    t.equal(state.grants.length, 1)
    t.equal(state.tokens.requests.length, 2, "the token server expects the client's credentials in the body")
    now += 3_539_000
    t.same(await run(second, 'globex', integrations), hello)
    t.equal(state.grants.length, 1)
    now += 1000
    await Promise.all(Array.from({ length: 10 }, (_item, index) => run(index % 2 === 0 ? first : second, 'globex', integrations)))
    t.equal(state.grants.length, 2, 'a minute before its expiry')
    t.equal(state.api.requests.filter(({ headers }) => headers.authorization !== `Bearer ${state.valid}`).length, 2, 'no call was rejected')
    t.equal(state.reused, 0)
    t.equal(
      await first.secrets.get('globex', 'crm_access_token'),
      state.valid,
      "stored under the connector's name if no secret is declared"
    )
  })

  await t.test('a server that dies during a renewal blocks others only for the lease', async (t) => {
    const state = await service(t)
    await storeClient(first, 'initech', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    await first.db.insertInto('tenantry.oauth_tokens').values({
      tenant_id: 'initech',
      key: 'CRM_ACCESS',
      holder: randomUUID(),
      leased_until: new Date(Date.now() + 700)
    }).execute()
    t.same(await run(second, 'initech', crm(state)), hello)
    t.equal(state.grants.length, 1)
    t.same(await run(first, 'initech', crm(state)), hello)
    t.equal(state.grants.length, 1)
  })

  await t.test('a granted token is used although its lease cannot be released', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'stark', name: 'Stark', plan: 'pro' })
    await storeClient(first, 'stark', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    await sql`create function tenantry.keep_lease() returns trigger language plpgsql as $$ begin raise 'not now'; end $$`.execute(first.db)
    await sql`create trigger keep_lease before update on tenantry.oauth_tokens for each row
      when (new.tenant_id = 'stark' and new.holder is null) execute function tenantry.keep_lease()`.execute(first.db)
    t.same(await run(first, 'stark', crm(state)), hello)
    t.equal(state.grants.length, 1)
    t.equal(await first.secrets.get('stark', 'CRM_ACCESS'), state.valid)
    await sql`drop function tenantry.keep_lease() cascade`.execute(first.db)
  })

  await t.test('a tenant gets no token of a deleted tenant with its id', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'wayne', name: 'Wayne', plan: 'pro' })
    await storeClient(first, 'wayne', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    const accept = await refuseTokens('wayne', 'CRM_ACCESS')
    t.same(await run(first, 'wayne', crm(state)), hello)
    t.same(await run(first, 'wayne', crm(state)), hello)
    t.equal(state.grants.length, 1, 'the token that could not be stored is in memory')
    await accept()

    await first.tenants.delete('wayne')
    await first.tenants.create({ id: 'wayne', name: 'Another', plan: 'pro' })
    await storeClient(first, 'wayne', { CRM_ACCESS: "another tenant's token", CRM_REFRESH: "another tenant's refresh token" })
    await t.rejects(run(first, 'wayne', crm(state)), { code: 'TENANTRY_PROVIDER_FAILED' })
    t.equal(state.api.requests.at(-1)?.headers.authorization, "Bearer another tenant's token")
  })

  await t.test('a tenant gets no token of an earlier tenant with its id from a server that missed the deletion', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'dunder', name: 'Dunder' })
    // As many secrets as the plan allows, so that no token is stored.
    await storeClient(first, 'dunder', { A: 'a', B: 'b', C: 'c' })
    t.same(await run(first, 'dunder', crm(state, {})), hello)
    t.same(await run(first, 'dunder', crm(state, {})), hello)
    t.same([state.grants.length, await first.secrets.get('dunder', 'crm_access_token')], [1, undefined], 'the token is in memory')
    await missSuccession(first, 'dunder')
    t.same(await run(first, 'dunder', crm(state, {})), hello)
    t.equal(state.grants.length, 2)
  })

  await t.test('a renewal stores nothing over secrets that were changed or deleted meanwhile', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'oscorp', name: 'Oscorp', plan: 'pro' })
    await storeClient(first, 'oscorp', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    state.meanwhile = () => storeClient(first, 'oscorp', { CRM_REFRESH: 'a refresh token of another account' })
    t.same(await run(first, 'oscorp', crm(state)), hello)
    t.equal(await first.secrets.get('oscorp', 'CRM_REFRESH'), 'a refresh token of another account')

    await storeClient(first, 'oscorp', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    state.meanwhile = async () => {
      for (const key of ['CRM_ACCESS', 'CRM_REFRESH']) await first.secrets.delete('oscorp', key, noActor)
    }
    t.same(await run(first, 'oscorp', crm(state)), hello)
    for (const key of ['CRM_ACCESS', 'CRM_REFRESH']) t.notOk(await first.secrets.get('oscorp', key), `${key} stays deleted`)
  })

  await t.test('a token that could not be stored counts until the tenant changes its secrets', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'tyrell', name: 'Tyrell', plan: 'pro' })
    await storeClient(first, 'tyrell', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    const accept = await refuseTokens('tyrell', '%')
    t.same(await run(first, 'tyrell', crm(state)), hello)
    t.same(await run(first, 'tyrell', crm(state)), hello)
    t.equal(state.grants.length, 1)
    await accept()
    await storeClient(first, 'tyrell', { CRM_ACCESS: state.valid = 'a token of another account' })
    t.same(await run(first, 'tyrell', crm(state)), hello)
    t.equal(state.grants.length, 1, 'the new secret is used')
  })

  await t.test('a replaced refresh token that could not be stored is stored with the next token', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'cyberdyne', name: 'Cyberdyne', plan: 'pro' })
    await storeClient(first, 'cyberdyne', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    const accept = await refuseTokens('cyberdyne', '%')
    t.same(await run(first, 'cyberdyne', crm(state)), hello)
    await accept()
    state.rotates = false
    state.valid = 'a token that the service has revoked'
    t.same(await run(first, 'cyberdyne', crm(state)), hello)
    t.equal(await first.secrets.get('cyberdyne', 'CRM_REFRESH'), state.refresh)
    state.valid = 'another one'
    t.same(await run(second, 'cyberdyne', crm(state)), hello, 'another server renews with it')
    t.equal(state.grants.length, 3)
  })

  await t.test('a replaced refresh token survives a failure of the database after the grant, and is stored later', async (t) => {
    const state = await service(t)
    await first.tenants.create({ id: 'weyland', name: 'Weyland', plan: 'pro' })
    await storeClient(first, 'weyland', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    await sql`create function tenantry.refuse_note() returns trigger language plpgsql as $$
      begin raise 'the disk is full' using errcode = 'disk_full'; end $$`.execute(first.db)
    await sql`create trigger refuse_note before update on tenantry.oauth_tokens for each row
      when (new.tenant_id = 'weyland' and new.token_hash is distinct from old.token_hash) execute function tenantry.refuse_note()`
      .execute(first.db)
    t.same(await run(first, 'weyland', crm(state)), hello)
    t.same(await run(first, 'weyland', crm(state)), hello)
    t.equal(state.grants.length, 1, 'the token is in memory')
    await sql`drop function tenantry.refuse_note() cascade`.execute(first.db)
    now += 10_000
    t.same(await run(first, 'weyland', crm(state)), hello)
    t.equal(await first.secrets.get('weyland', 'CRM_ACCESS'), state.valid)
    t.equal(await first.secrets.get('weyland', 'CRM_REFRESH'), state.refresh)
    state.valid = 'a token that the service has revoked'
    t.same(await run(second, 'weyland', crm(state)), hello, 'another server renews with it')
    t.equal(state.reused, 0)
  })

  await t.test("a rejected refresh token fails the call, without the server's message", async (t) => {
    const state = await service(t)
    await storeClient(first, 'umbrella', { CRM_ACCESS: 'an old token', CRM_REFRESH: 'one that nobody gave' })
    await t.rejects(run(first, 'umbrella', crm(state)), {
      code: 'TENANTRY_PROVIDER_FAILED',
      statusCode: 502,
      extras: { integration: 'crm', action: 'hello', status: 400 }
    })
    const rows = await first.db.selectFrom('tenantry.oauth_tokens').select(['holder', 'leased_until']).where('tenant_id', '=', 'umbrella')
      .execute()
    t.match(rows, [{ holder: null, leased_until: null }], 'the lease has ended')
    await first.secrets.put('umbrella', { key: 'CRM_REFRESH', value: state.refresh }, noActor)
    t.same(await run(first, 'umbrella', crm(state)), hello, 'a new one is used at once')
    const elsewhere = await service(t)
    await t.rejects(run(first, 'hooli', crm(elsewhere)), { code: 'TENANTRY_CREDENTIALS_REQUIRED' })
    t.equal(elsewhere.tokens.connections, 0)
  })

  await t.test('a service that rejects every token is called twice', async (t) => {
    const state = await service(t)
    await storeClient(first, 'hooli', { CRM_ACCESS: 'an old token', CRM_REFRESH: state.refresh })
    const deaf = await remote(t, (_request, response) => {
      response.writeHead(401).end('{"message":"go away"}')
    })
    await t.rejects(run(first, 'hooli', crm({ ...state, api: deaf })), {
      code: 'TENANTRY_PROVIDER_FAILED',
      message: /^(?!.*go away)/,
      extras: { status: 401 }
    })
    t.equal(deaf.requests.length, 2)
    t.equal(state.grants.length, 1)
  })

  await t.test('a private address of a token server is refused like any tenant address', async (t) => {
    const state = await service(t)
    await storeClient(first, 'hooli', { CRM_ACCESS: 'another old token', CRM_REFRESH: state.refresh })
    const aimed = crm(state).map((one) => ({ ...one, auth: { ...one.auth, tokenUrl: 'http://[::1]:9/token' } }))
    await t.rejects(run(first, 'hooli', aimed), { code: 'TENANTRY_ADDRESS_REFUSED' })
  })
})

test("the platform's tokens stay in memory, and are not available to tenants", async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const app = await open(t, connectionString)
  for (const id of ['acme', 'globex']) await app.tenants.create({ id, name: id, plan: 'pro' })
  const state = await service(t)
  const env = { CLIENT: 'the client', SECRET: secretText('a/secret', 'the secret of the client'), REFRESH: state.refresh }
  const call = callOf(
    connectorsOf(crm(state, {}, { clientId: '{{env.CLIENT}}', clientSecret: '{{env.SECRET}}' }), 'platform', env),
    'crm',
    'hello'
  )
  for (const tenant of ['', 'acme', 'globex']) {
    const calls = Array.from(
      { length: 5 },
      async () => await app.integrations.run(call, await scopeOf(app, tenant), { tenant: tenantRef(tenant), log: app.log })
    )
    for (const result of await Promise.all(calls)) t.same(result, hello)
  }
  t.same(state.grants, ['client_credentials read write'], 'one token for all')
  for (const tenant of ['acme', 'globex']) t.same(await app.secrets.list(tenant), [], 'which no tenant can read')
  t.same(await app.db.selectFrom('tenantry.oauth_tokens').selectAll().execute(), [])

  const rotating = callOf(
    connectorsOf(
      crm(state, { refreshToken: '{{env.REFRESH}}' }, { clientId: '{{env.CLIENT}}', clientSecret: '{{env.SECRET}}' }),
      'platform',
      env
    ),
    'crm',
    'hello'
  )
  for (let round = 0; round < 3; round++) {
    state.valid = 'revoked'
    t.same(await app.integrations.run(rotating, await scopeOf(app, 'acme'), { tenant: tenantRef('acme'), log: app.log }), hello)
  }
  t.equal(state.reused, 0, 'a rotated refresh token is remembered')
  t.same(await app.secrets.list('acme'), [])
})
