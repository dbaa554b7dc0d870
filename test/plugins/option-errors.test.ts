/** The errors of wrong options in an app of one's own, and those of a server for the same faults. */
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { ConfigError } from '../../lib/configuration/index.js'
import { catalogue } from '../../lib/errors.js'
import { createServer } from '../../lib/server.js'
import auth from '../../plugins/auth/index.js'
import configRoutes from '../../plugins/config-routes/index.js'
import database from '../../plugins/database/index.js'
import files from '../../plugins/files/index.js'
import idempotency from '../../plugins/idempotency/index.js'
import mcp from '../../plugins/mcp/index.js'
import mfa from '../../plugins/mfa/index.js'
import outbound from '../../plugins/outbound/index.js'
import queue from '../../plugins/queue/index.js'
import rateLimit from '../../plugins/rate-limit/index.js'
import secrets from '../../plugins/secrets/index.js'
import tenancy from '../../plugins/tenancy/index.js'
import tools from '../../plugins/tools/index.js'
import webhooks from '../../plugins/webhooks/index.js'
import { postgresSection } from '../helpers/postgres.js'
import { type TestDocument, testDocument, testEnv, testMasterKey } from '../helpers/server.js'
import { testSecret } from '../helpers/tokens.js'

function bare (t: Test): FastifyInstance {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  return app
}

async function withTenancy (t: Test): Promise<FastifyInstance> {
  const app = bare(t)
  await app.register(database, await postgresSection(t))
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  return app
}

const faultsOf = (plugin: string, fault: string) => ({
  name: 'ConfigError',
  message: `the plugin "tenantry/plugins/${plugin}": the configuration has 1 fault\n${fault}`
})

t.test('a fault in the keys of auth names the plugin, and no setting that only a server reads', async (t) => {
  await t.rejects(
    async () => await bare(t).register(auth, { jwt: { secret: 'short' } }),
    faultsOf('auth', '/jwt/secret: expected at least 32 characters')
  )
  await t.rejects(
    async () => await bare(t).register(auth, { jwt: { secret: undefined } }),
    faultsOf('auth', '/jwt/secret: missing: expected a `secret`, or a `publicKey`')
  )
})

t.test('a fault that mcp finds beyond its schema names the plugin', async (t) => {
  const app = bare(t)
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tools)
  await t.rejects(async () => await app.register(mcp, { url: 'http://x/api/mcp' }), faultsOf('mcp', '/mcp/url: expected a URL without a path, in lower case: `https://api.example.com`'))
})

t.test('the faults of routes name the plugin, and are those of the error', async (t) => {
  const app = bare(t)
  await app.register(database, {})
  await app.register(rateLimit)
  const error: unknown = await app
    .register(configRoutes, { routes: [{ path: '/a', method: 'get', queries: [{ table: 'none', operation: 'select' }] }] })
    .then(() => null, (reason: unknown) => reason)
  t.ok(error instanceof ConfigError)
  t.match(error, {
    message: /^the plugin "tenantry\/plugins\/config-routes": the configuration has 1 fault\n\/routes\/0\/queries\/0\/table: there is no table/,
    faults: [{ pointer: '/routes/0/queries/0/table' }]
  })
})

const wrongKey = (plugin: string, option: string) => ({
  message: `the plugin "tenantry/plugins/${plugin}": \`${option}\` is not 32 bytes in base64: make one with: openssl rand -base64 32`
})

t.test('a wrong master key names the plugin and its option', async (t) => {
  const attempts: Record<string, (app: FastifyInstance, keys: { masterKey: string }) => unknown> = {
    secrets: (app, keys) => app.register(secrets, keys),
    idempotency: (app, keys) => app.register(idempotency, keys),
    mfa: (app, keys) => app.register(mfa, keys),
    files: (app, keys) => app.register(files, { ...keys, path: t.testdir() }),
    async webhooks (app, keys) {
      await app.register(outbound)
      await app.register(queue)
      await app.register(webhooks, keys)
    }
  }
  for (const [name, attempt] of Object.entries(attempts)) {
    const app = await withTenancy(t)
    await t.rejects(async () => { await attempt(app, { masterKey: 'abc' }) }, wrongKey(name, 'masterKey'))
  }
  const app = await withTenancy(t)
  await t.rejects(
    async () => await app.register(secrets, { masterKey: testMasterKey, previousKeys: 'abc' }),
    wrongKey('secrets', 'previousKeys')
  )
})

t.test('a missing master key names the plugin and its option, and no member of a document', async (t) => {
  const app = await withTenancy(t)
  await t.rejects(async () => await app.register(secrets), {
    message: 'the plugin "tenantry/plugins/secrets": `masterKey` is missing: it encrypts the secrets of tenants. Set it (make one with: openssl rand -base64 32)'
  })
})

t.test('an unreachable database names the plugin, the reason and what to do', async (t) => {
  const postgres = { connectionString: 'postgres://someone:hunter2@127.0.0.1:1/none' }
  await t.rejects(async () => await bare(t).register(database, { provider: 'postgres', postgres }), {
    code: catalogue.databaseUnavailable.code,
    message: 'the plugin "tenantry/plugins/database": the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1: start PostgreSQL, or correct the host or the port in `postgres.connectionString`'
  })
})

t.test('the errors of a server name its settings and the places in its document, but no plugin', async (t) => {
  const refused = async (document: TestDocument, env: Record<string, string> = testEnv) => {
    const app = createServer(testDocument(document), { env, logger: false })
    t.teardown(() => app.close())
    return await app.ready().then(() => 'it starts', (reason: unknown) => reason instanceof Error ? reason.message : reason)
  }
  t.equal(
    await refused({}, { ...testEnv, SECRETS_MASTER_KEY: 'abc' }),
    'SECRETS_MASTER_KEY is not 32 bytes in base64: make one with: openssl rand -base64 32'
  )
  t.match(
    await refused({ routes: [{ path: '/a', method: 'get', queries: [{ table: 'none', operation: 'select' }] }] }),
    /^the configuration has 1 fault\n\/routes\/0\/queries\/0\/table: there is no table/
  )
  t.equal(
    await refused({ databaseProvider: 'postgres', postgres: { connectionString: 'postgres://nobody@127.0.0.1:1/none' } }),
    'The database cannot be reached; try again'
  )
})
