/** The resolution of a request's tenant, over HTTP. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { RawNode } from 'kysely'
import { type Test, test } from 'tap'
import database from '../../../plugins/database/index.js'
import type { TenancyOptions } from '../../../plugins/tenancy/index.js'
import { testApp } from '../../helpers/app.js'
import { type DatabaseSection, postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import type { TokenClaims } from '../../helpers/tokens.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'

interface Options extends TenancyOptions {
  readonly engine?: DatabaseSection
  readonly tenants?: readonly string[]
  /** Requests per minute. */
  readonly max?: number
}

/** The plugin in its own app. */
async function appWith (
  t: Test,
  { engine, tenants = ['acme', 'globex'], max = 10_000, ...options }: Options = {}
): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    plugins: { conventions: {}, tenancy: options, 'rate-limit': { enabled: true, default: { max, windowMs: 60_000 } }, tenants: {} },
    tenants,
    async before (app) {
      await app.register(database, { ...engine, migrate: 'auto' })
      await app.register(countLooks)
    },
    routes (app) {
      app.get('/open', { config: { access: 'open' } }, async ({ tenant }) => ({ tenant }))
      app.get('/closed', { config: { access: 'open', publicTenant: false } }, async ({ tenant }) => ({ tenant }))
      app.get('/user', { config: { access: 'user' } }, async ({ tenant }) => ({ tenant }))
      app.get('/public', { config: { access: 'public' } }, async ({ tenant }) => ({ tenant }))
    }
  })
  return app
}

const looks = new WeakMap<FastifyInstance, number>()

/** Counts the statements that look up a tenant. */
const countLooks = fp(async (app: FastifyInstance) => {
  const root = app
  app.db = app.db.withPlugin({
    transformQuery ({ node }) {
      if (RawNode.is(node) && node.sqlFragments.join('').includes('deleted_tenants')) looks.set(root, looksOf(root) + 1)
      return node
    },
    transformResult: async ({ result }) => result
  })
})

function looksOf (app: FastifyInstance): number {
  return looks.get(app) ?? 0
}

/** The tenant's id, or status and code of the error. */
async function tenantOf (app: FastifyInstance, url: string, claims: TokenClaims | null, header?: string): Promise<unknown> {
  const response = await app.inject({
    url,
    headers: { ...(claims !== null && bearer(claims)), ...(header !== undefined && { 'x-tenant-id': header }) }
  })
  const body = response.json()
  return response.statusCode === 200 ? body.tenant?.id ?? null : `${response.statusCode} ${body.code}`
}

const mismatch = '403 TENANTRY_TENANT_MISMATCH'
const unknown = '404 TENANTRY_TENANT_UNKNOWN'
const suspended = '403 TENANTRY_TENANT_SUSPENDED'
const admin = { role: 'admin' }

test('callers and the tenants that they name', async (t) => {
  const app = await appWith(t)

  await t.test('the claim names the tenant, and the header must match it', async (t) => {
    const claims = { tenant_id: 'acme' }
    t.equal(await tenantOf(app, '/user', claims), 'acme')
    t.equal(await tenantOf(app, '/user', claims, 'acme'), 'acme')
    for (const header of ['globex', 'ACME', 'acme_', 'nobody']) {
      t.equal(await tenantOf(app, '/user', claims, header), mismatch, header)
      t.equal(await tenantOf(app, '/open', claims, header), mismatch, header)
      t.equal(await tenantOf(app, '/user', { ...claims, role: 'admin' }, header), mismatch, "a tenant's administrator")
    }
    t.equal(await app.tenants.get('nobody'), null, 'the named tenant is not created')
  })

  await t.test('only a platform administrator may name any tenant, which must exist', async (t) => {
    t.equal(await tenantOf(app, '/user', admin, 'globex'), 'globex')
    t.equal(await tenantOf(app, '/user', admin), null)
    t.equal(await tenantOf(app, '/user', admin, 'nobody'), unknown)
    t.equal(await tenantOf(app, '/user', { role: 'editor' }, 'globex'), mismatch)
    t.equal(await tenantOf(app, '/open', { permissions: ['*'] }, 'globex'), mismatch)
    t.equal(await tenantOf(app, '/user', {}), null)
  })

  await t.test('a caller without a token can name an existing tenant, on open routes that allow it', async (t) => {
    t.equal(await tenantOf(app, '/open', null, 'acme'), 'acme')
    t.equal(await tenantOf(app, '/open', null), null)
    t.equal(await tenantOf(app, '/open', null, 'nobody'), unknown)
    t.equal(await tenantOf(app, '/closed', null, 'acme'), '401 TENANTRY_TOKEN_MISSING')
    t.equal(await tenantOf(app, '/closed', null, 'nobody'), '401 TENANTRY_TOKEN_MISSING')
    t.equal(await tenantOf(app, '/closed', null), null)
    t.equal(await tenantOf(app, '/closed', { tenant_id: 'acme' }, 'acme'), 'acme')
    t.equal(await tenantOf(app, '/public', null, 'acme'), null)
    t.equal(await tenantOf(app, '/user', null, 'acme'), '401 TENANTRY_TOKEN_MISSING')
    t.equal(await app.tenants.get('nobody'), null, 'a tenant named by an anonymous caller is not created')
  })

  await t.test('a malformed id or several headers are a 400 for every caller', async (t) => {
    for (
      const header of [
        '',
        ' ',
        'a b',
        'a.b',
        '../x',
        '%2e%2e',
        'acme%00',
        'acme\u0000',
        '*',
        "''",
        "' or '1'='1",
        'acme,globex',
        'acme, acme',
        'x'.repeat(65),
        'é',
        'аcme',
        '\u{1f600}',
        "a'--",
        '{{auth.sub}}',
        'acme\u200b'
      ]
    ) {
      for (const claims of [null, { tenant_id: 'acme' }, admin]) {
        const response = await tenantOf(app, '/open', claims, header)
        t.equal(response, '400 TENANTRY_TENANT_INVALID', header)
      }
    }
    for (const claims of [null, { tenant_id: 'acme' }, admin]) {
      const response = await app.inject({
        url: '/open',
        headers: { ...(claims !== null && bearer(claims)), 'x-tenant-id': ['acme', 'globex'] }
      })
      t.equal(response.json().code, 'TENANTRY_TENANT_INVALID', 'two headers')
    }
    for (const id of ['__proto__', 'constructor', 'toString', 'x'.repeat(64)]) t.equal(await tenantOf(app, '/open', null, id), unknown, id)
    t.equal(await tenantOf(app, '/user', { tenant_id: '__proto__' }), '__proto__', 'an ordinary id')
    for (const claim of ['*', '', 'a b', 'x'.repeat(65), 'acme\u0000', ['acme'], { id: 'acme' }, 7, null]) {
      const response = await app.inject({
        url: '/user',
        headers: bearer(Object.assign({}, JSON.parse(JSON.stringify({ tenant_id: claim }))))
      })
      t.equal(response.statusCode, 401, `a token with the tenant ${JSON.stringify(claim)}`)
    }
  })

  await t.test('a cached tenant is returned synchronously, and frozen', async (t) => {
    await app.tenants.get('acme')
    const tenant = app.tenants.get('acme')
    t.notOk(tenant instanceof Promise)
    t.ok(Object.isFrozen(tenant))
    t.equal(app.tenants.get('acme'), tenant, 'requests share it')
  })

  await t.test("no request sees another request's tenant", async (t) => {
    t.equal(await tenantOf(app, '/open', null, 'acme'), 'acme')
    t.equal(await tenantOf(app, '/open', null), null)
  })

  await t.test("a suspended tenant's users are rejected at once, and platform administrators still reach it", async (t) => {
    t.equal(await tenantOf(app, '/user', { tenant_id: 'globex' }), 'globex')
    await app.tenants.update('globex', { status: 'suspended' })
    for (const claims of [{ tenant_id: 'globex' }, { tenant_id: 'globex', role: 'admin' }]) {
      t.equal(await tenantOf(app, '/user', claims), suspended)
    }
    t.equal(await tenantOf(app, '/open', null, 'globex'), suspended)
    t.equal(await tenantOf(app, '/user', admin, 'globex'), 'globex')
    t.equal((await app.inject({ url: '/tenants/globex', headers: bearer(admin) })).json().status, 'suspended')
    t.equal(await tenantOf(app, '/user', { tenant_id: 'acme' }), 'acme', 'another tenant is served')
    await app.tenants.update('globex', { status: 'active' })
    t.equal(await tenantOf(app, '/user', { tenant_id: 'globex' }), 'globex')
  })

  await t.test('tenant.config contains the settings of the current document, and is frozen', async (t) => {
    const save = (version: number, document: unknown) =>
      app.events.change(
        { topic: 'config', tenant: 'acme' },
        (transaction) =>
          transaction.insertInto('tenantry.tenant_configs').values({
            tenant_id: 'acme',
            version,
            document: JSON.stringify(document),
            created_by: 'test'
          }).execute()
      )
    const config = async () => (await app.inject({ url: '/open', headers: { 'x-tenant-id': 'acme' } })).json().tenant.config
    t.same(await config(), {})
    await save(1, { routes: [], settings: { colour: 'red', deep: { list: [1, { a: 2 }] } } })
    t.same(await config(), { colour: 'red', deep: { list: [1, { a: 2 }] } })
    const tenant = await app.tenants.get('acme')
    t.throws(() => Object.assign(tenant!.config, { colour: 'blue' }), TypeError)
    t.throws(() => Object.assign(Object(tenant!.config['deep']).list[1], { a: 3 }), TypeError)
    await save(2, { settings: { colour: 'green' } })
    t.same(await config(), { colour: 'green' })
    await save(10, {})
    t.same(await config(), {})
    for (const [index, settings] of [[1, 2], 'text', null, 7].entries()) {
      await save(11 + index, { settings })
      t.same(await config(), {}, JSON.stringify(settings))
    }
  })
})

test("a gateway's header selects the tenant if the token names none", async (t) => {
  const app = await appWith(t, { trustHeader: true })
  t.equal(await tenantOf(app, '/user', { role: 'editor' }, 'globex'), 'globex')
  t.equal(await tenantOf(app, '/closed', null, 'globex'), 'globex')
  t.equal(await tenantOf(app, '/open', null, 'globex'), 'globex')
  t.equal(await tenantOf(app, '/user', { tenant_id: 'acme' }, 'globex'), mismatch)
  t.equal(await tenantOf(app, '/open', null, 'initech'), 'initech', 'the gateway may name a new tenant')
  await app.tenants.delete('globex')
  t.equal(await tenantOf(app, '/open', null, 'globex'), unknown, 'but not a deleted one')
  t.equal(await tenantOf(app, '/user', admin, 'acm'), unknown, "a platform administrator's typo created a tenant")
  t.equal(await app.tenants.get('acm'), null)
  t.equal(await tenantOf(app, '/user', admin, 'acme'), 'acme')
})

test('tenants that do not exist', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const

  await t.test('a valid token creates its tenant, once on two servers at the same time', async (t) => {
    const [one, two] = [await appWith(t, { engine, tenants: [] }), await appWith(t, { engine, tenants: [] })]
    const responses = await Promise.all(
      Array.from({ length: 40 }, (_, index) => tenantOf(index % 2 === 0 ? one : two, '/user', { tenant_id: `new-${index % 4 >> 1}` }))
    )
    t.same(responses, Array.from({ length: 40 }, (_, index) => `new-${index % 4 >> 1}`))
    t.same(
      await query('select id, name, plan, status from tenantry.tenants order by id'),
      ['new-0', 'new-1'].map((id) => ({ id, name: id, plan: 'free', status: 'active' }))
    )
    t.equal((await one.inject({ url: '/user', headers: { authorization: 'Bearer nonsense', 'x-tenant-id': 'forged' } })).statusCode, 401)
    t.equal(await two.tenants.get('forged'), null, 'an invalid token creates no tenant')
  })

  await t.test('with explicit provisioning a token creates no tenant', async (t) => {
    const app = await appWith(t, { engine, provisioning: 'explicit', tenants: [] })
    t.equal(await tenantOf(app, '/user', { tenant_id: 'later' }), unknown)
    await app.tenants.create({ id: 'later', name: 'Later' })
    t.equal(await tenantOf(app, '/user', { tenant_id: 'later' }), 'later', 'at once when it is created')
  })

  await t.test('only a token from after the deletion creates a deleted tenant again', async (t) => {
    const app = await appWith(t, { engine, tenants: ['gone'] })
    const deletedAt = async () => {
      const [row] = await query("select extract(epoch from deleted_at)::float8 as at from tenantry.deleted_tenants where id = 'gone'")
      return row === undefined ? null : Number(row['at'])
    }
    t.equal(await tenantOf(app, '/user', { tenant_id: 'gone' }), 'gone')
    await app.tenants.delete('gone')
    const looked = looksOf(app)
    for (const iat of [0, Math.floor(Number(await deletedAt())), Math.floor(Number(await deletedAt())) - 3600, undefined, '9999999999']) {
      const response = await tenantOf(app, '/user', Object.assign({ tenant_id: 'gone' }, { iat }))
      t.match(response, /404 TENANTRY_TENANT_UNKNOWN|401 TENANTRY_TOKEN_INVALID/, `issued at ${iat}`)
    }
    t.equal(looksOf(app) - looked, 1, 'old tokens cost one lookup a second, and write nothing')
    const messageFor = async (iat: number | undefined) =>
      (await app.inject({ url: '/user', headers: bearer(Object.assign({ tenant_id: 'gone' }, { iat })) })).json().message
    t.equal(await messageFor(0), 'The token is older than the deletion of a tenant with this id: get a new token')
    t.equal(await tenantOf(app, '/user', admin, 'gone'), unknown)
    t.not(await deletedAt(), null)
    t.equal(await tenantOf(app, '/user', { tenant_id: 'gone', iat: Math.floor(Number(await deletedAt())) + 1 }), 'gone')
    t.equal(await tenantOf(app, '/user', { tenant_id: 'gone', iat: 0 }), unknown, 'a token of the deleted tenant is not valid for the new one')
    t.equal(await tenantOf(app, '/user', admin, 'gone'), 'gone')

    await app.tenants.delete('gone')
    await app.tenants.create({ id: 'gone', name: 'Again' })
    t.equal(await tenantOf(app, '/user', { tenant_id: 'gone', iat: 0 }), unknown, 'likewise if the platform created it')
    t.equal(await tenantOf(app, '/user', { tenant_id: 'gone', iat: 0, api_key: 'k' }), unknown, 'a token is not a key, whatever it claims')
    t.equal(await tenantOf(app, '/user', { tenant_id: 'gone', iat: Math.floor(Number(await deletedAt())) + 1 }), 'gone')

    const explicit = await appWith(t, { engine, provisioning: 'explicit', tenants: [] })
    t.equal(await tenantOf(explicit, '/user', { tenant_id: 'gone', iat: 0 }), unknown, 'also with explicit provisioning')
    t.equal(await tenantOf(explicit, '/user', { tenant_id: 'gone', iat: Math.floor(Number(await deletedAt())) + 1 }), 'gone')
  })

  await t.test("a server is notified of another's changes", async (t) => {
    const [one, two] = [await appWith(t, { engine, tenants: ['shared'] }), await appWith(t, { engine, tenants: [] })]
    const responses = (expected: string) => until('the other server knows the tenant', async () => await tenantOf(two, '/user', { tenant_id: 'shared', iat: 1 }) === expected)
    await responses('shared')
    await one.tenants.update('shared', { status: 'suspended' })
    await responses(suspended)
    await one.tenants.update('shared', { status: 'active' })
    await responses('shared')
    await one.tenants.delete('shared')
    await responses(unknown)
    await one.tenants.create({ id: 'shared', name: 'Shared' })
    await until('the other server accepts new tokens', async () => await tenantOf(two, '/user', { tenant_id: 'shared', iat: Math.floor(Date.now() / 1000) + 2 }) === 'shared')
  })
})

test('unknown ids from anonymous callers cost little', async (t) => {
  const app = await appWith(t, {
    engine: await postgresSection(t),
    max: 30,
    maxRemembered: 2,
    tenants: ['acme', 'globex']
  })
  t.equal(await tenantOf(app, '/open', null, 'acme'), 'acme')
  t.equal(await tenantOf(app, '/open', null, 'globex'), 'globex')
  const looked = looksOf(app)
  const flood = await Promise.all(Array.from({ length: 100 }, (_, index) => tenantOf(app, '/open', null, `random-${index}`)))
  t.equal(flood.filter((response) => response === unknown).length, 28, "the address's rate limit comes before the lookup")
  t.equal(flood.filter((response) => response === '429 TENANTRY_RATE_LIMITED').length, 72)
  t.equal(looksOf(app) - looked, 28)
  for (const id of ['acme', 'globex']) t.equal(await tenantOf(app, '/user', { tenant_id: id }), id)
  t.equal(looksOf(app) - looked, 28, 'they evict no tenant from the cache')
})
