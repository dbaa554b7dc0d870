/** The whole server for tests over HTTP. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { ConfigInput } from '../../lib/configuration/index.js'
import { postgresSection, type DatabaseSection } from './postgres.js'
import { setTimeout } from 'node:timers/promises'
import { createServer, type ServerOptions } from '../../lib/server.js'
import { scanLog, secretsOfExchange, secretText, secretToken } from './log-scan.js'
import { testSecret } from './tokens.js'

/** The master key of tests' secrets: 32 bytes, base64. */
export const testMasterKey = secretText(Buffer.from('a master key of the tests, 32 by').toString('base64'), 'the master key')

/** The settings of a test's server: what PostgreSQL refuses to start without. */
export const testEnv = Object.freeze({ SECRETS_MASTER_KEY: testMasterKey })

/** A tenant that a test begins with; one that is named by its id alone is on the plan `free`. */
export type TestTenant = string | { readonly id: string, readonly plan?: string }

export interface TestServerOptions extends ServerOptions {
  /** What `forEachEngine` hands out, or the section of a `postgresDatabase`. Default: a PostgreSQL database of its own. */
  readonly engine?: DatabaseSection
  /** Tenants that are there when the server is ready. */
  readonly tenants?: readonly TestTenant[]
  /** Adds to the app before it is ready. */
  readonly prepare?: (app: FastifyInstance) => void
}

/** A document of a test: what it leaves out is the test's database, `testSecret`, and no limit of requests, that of plans neither. */
export type TestDocument = Partial<ConfigInput>

/**
 * A server of the document, ready, and closed when the test ends (before the test's database is dropped, where that
 * was made first). Its environment is `testEnv` with what the options say on top. `app.inject` asks it without a port;
 * `listen` gives it one. It logs at `trace` into memory, and the test fails where a secret stands in that log or in the audit log; a test
 * that gives a `logger` reads its log itself.
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
  const entries = scanLog(t, 'the audit log')
  t.teardown(async () => {
    await Promise.race([auditOf(app).then(entries.write), setTimeout(1000, undefined, { ref: false })])
    await app.close()
  })
  rememberSecrets(app)
  prepare?.(app)
  await app.ready()
  for (const tenant of tenants) {
    const { id, plan = 'free' } = typeof tenant === 'string' ? { id: tenant } : tenant
    await app.tenants.create({ id, name: id, plan })
  }
  return app
}

/** Two servers on one PostgreSQL, as two instances behind a load balancer; the tenants are there for both. */
export async function testServers (
  t: Test,
  document: TestDocument,
  options: TestServerOptions & { readonly engine: DatabaseSection }
): Promise<[FastifyInstance, FastifyInstance]> {
  const first = await testServer(t, document, options)
  return [first, await testServer(t, document, { ...options, tenants: [] })]
}

/** The whole document, for tests that call `createServer` or `checkConfig` themselves. */
export function testDocument (document: TestDocument, engine: DatabaseSection = { provider: 'embedded' }): ConfigInput {
  const database = engine.provider === 'postgres'
    ? { databaseProvider: engine.provider, postgres: engine.postgres }
    : { databaseProvider: engine.provider }
  return { ...database, jwt: { secret: testSecret }, rateLimit: { enabled: false }, routes: [], ...document }
}

/** Opens a port that is free; returns the origin, `http://127.0.0.1:<port>`. */
export async function listen (app: FastifyInstance): Promise<string> {
  return await app.listen({ port: 0, host: '127.0.0.1' })
}

/** The audit log as it is when the test ends; nothing where the test has stopped the server, or the database. */
async function auditOf (app: FastifyInstance): Promise<string> {
  try {
    return JSON.stringify(await app.db.selectFrom('tenantry.audit_log').selectAll().execute())
  } catch {
    return ''
  }
}

/** Whoever asks, and however: tokens and keys that are sent, secrets that are stored, keys that are made. */
function rememberSecrets (app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { authorization, 'x-api-key': key } = request.headers
    if (authorization !== undefined) secretToken(authorization)
    if (typeof key === 'string' && key.length > 20) secretText(key, 'an API key')
    done()
  })
  app.addHook('onSend', (request, _reply, payload, done) => {
    secretsOfExchange(request.method, request.url, request.body, payload)
    done(null, payload)
  })
}
