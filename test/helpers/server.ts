/** The whole server for tests over HTTP. */
import { setTimeout } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { ConfigInput } from '../../lib/configuration/index.js'
import { createServer, type ServerOptions } from '../../lib/server.js'
import { scanLog, secretOfRequest, secretsOfExchange, secretText, secretToken } from './log-scan.js'
import { type DatabaseSection, patientPool, postgresSection } from './postgres.js'
import { testSecret } from './tokens.js'

/** The master key for the tests' secrets: 32 bytes, base64. */
export const testMasterKey = secretText(Buffer.from('a master key of the tests, 32 by').toString('base64'), 'the master key')

/** The settings of a test's server: those without which a server on PostgreSQL does not start. */
export const testEnv = Object.freeze({ SECRETS_MASTER_KEY: testMasterKey })

/** A tenant that exists when the test begins. A tenant given only by its id is on the plan `free`. */
export type TestTenant = string | { readonly id: string, readonly plan?: string }

export interface TestServerOptions extends ServerOptions {
  /** The engine from `forEachEngine`, or the section of a `postgresDatabase`. Default: a new PostgreSQL database. */
  readonly engine?: DatabaseSection
  /** Tenants that exist when the server is ready. */
  readonly tenants?: readonly TestTenant[]
  /** Called with the app before it is ready. */
  readonly prepare?: (app: FastifyInstance) => void
}

/** A test's document. Defaults: the test's database, `testSecret`, and no rate limits, not even those of plans. */
export type TestDocument = Partial<ConfigInput>

/**
 * Creates a server of the document. It is ready, and closed when the test ends, before an earlier created database is dropped. The
 * environment is `testEnv` with the members of the options. `app.inject` needs no port; `listen` opens one. The server logs at
 * `trace` into memory. The test fails if that log or the audit log contains a secret. A test with its own `logger` reads its log
 * itself.
 */
export async function testServer (
  t: Test,
  document: TestDocument,
  { engine, tenants = [], env, logger, prepare }: TestServerOptions = {}
): Promise<FastifyInstance> {
  const database = engine ?? await postgresSection(t)
  const app = createServer(testDocument(document, database), {
    env: { ...testEnv, ...env },
    logger: logger ?? { level: 'trace', stream: scanLog(t, 'the log of the server') }
  })
  closeWithTest(t, app)
  prepare?.(app)
  await app.ready()
  await addTenants(app, tenants)
  return app
}

/** Closes the app when the test ends. The test fails if the audit log contains a secret. */
export function closeWithTest (t: Test, app: FastifyInstance): void {
  const entries = scanLog(t, 'the audit log')
  t.teardown(async () => {
    await Promise.race([auditOf(app).then(entries.write), setTimeout(1000, undefined, { ref: false })])
    await app.close()
  })
  rememberSecrets(app)
}

export async function addTenants (app: FastifyInstance, tenants: readonly TestTenant[]): Promise<void> {
  for (const tenant of tenants) {
    const { id, plan = 'free' } = typeof tenant === 'string' ? { id: tenant } : tenant
    await app.tenants.create({ id, name: id, plan })
  }
}

/** Two servers on one PostgreSQL, like two instances behind a load balancer. Both have the tenants. */
export async function testServers (
  t: Test,
  document: TestDocument,
  options: TestServerOptions & { readonly engine: DatabaseSection }
): Promise<[FastifyInstance, FastifyInstance]> {
  const first = await testServer(t, document, options)
  return [first, await testServer(t, document, { ...options, tenants: [] })]
}

/** The complete document, for tests that call `createServer` or `checkConfig` themselves. */
export function testDocument (document: TestDocument, engine: DatabaseSection = { provider: 'embedded' }): ConfigInput {
  const database = engine.provider === 'postgres'
    ? { databaseProvider: engine.provider, postgres: { ...engine.postgres, pool: patientPool(engine.postgres.pool) } }
    : { databaseProvider: engine.provider }
  return { ...database, jwt: { secret: testSecret }, rateLimit: { enabled: false }, routes: [], ...document }
}

/** Listens on a free port. Returns the origin, `http://127.0.0.1:<port>`. */
export async function listen (app: FastifyInstance): Promise<string> {
  return await app.listen({ port: 0, host: '127.0.0.1' })
}

/** The audit log at the end of the test; empty if the test has stopped the server or the database. */
async function auditOf (app: FastifyInstance): Promise<string> {
  try {
    return JSON.stringify(await app.db.selectFrom('tenantry.audit_log').selectAll().execute())
  } catch {
    return ''
  }
}

/** Marks the secrets of every request: sent tokens and keys, stored secrets, and created keys. */
function rememberSecrets (app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { authorization, 'x-api-key': key } = request.headers
    if (authorization !== undefined) secretToken(authorization)
    if (typeof key === 'string' && key.length > 20) secretOfRequest(key, 'an API key')
    done()
  })
  app.addHook('onSend', (request, _reply, payload, done) => {
    secretsOfExchange(request.method, request.url, request.body, payload)
    done(null, payload)
  })
}
