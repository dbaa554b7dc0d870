/** The whole server for tests over HTTP. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { ConfigInput } from '../../lib/config/index.js'
import type { DatabaseSection } from './postgres.js'
import { createServer, type ServerOptions } from '../../lib/server.js'
import { testSecret } from './tokens.js'

export interface TestServerOptions extends ServerOptions {
  /** What `forEachEngine` hands out, or the section of a `postgresDatabase`. Default: embedded, in memory. */
  readonly engine?: DatabaseSection
}

/** A document of a test: what it leaves out is the test's database and `testSecret`. */
export type TestDocument = Partial<ConfigInput>

/**
 * A server of the document, ready, and closed when the test ends (before the test's database is dropped, where that
 * was made first). It logs nothing and has no environment, unless the options say so. `app.inject` asks it without a
 * port; `listen` gives it one.
 */
export async function testServer (t: Test, document: TestDocument, options: TestServerOptions = {}): Promise<FastifyInstance> {
  const app = createServer(testDocument(document, options.engine), { env: {}, logger: false, ...serverOptions(options) })
  t.teardown(() => app.close())
  await app.ready()
  return app
}

/** The whole document, for tests that call `createServer` or `checkConfig` themselves. */
export function testDocument (document: TestDocument, engine: DatabaseSection = { provider: 'embedded' }): ConfigInput {
  const database = engine.provider === 'postgres'
    ? { databaseProvider: engine.provider, postgres: engine.postgres }
    : { databaseProvider: engine.provider }
  return { ...database, jwt: { secret: testSecret }, routes: [], ...document }
}

/** Opens a port that is free; returns the origin, `http://127.0.0.1:<port>`. */
export async function listen (app: FastifyInstance): Promise<string> {
  return await app.listen({ port: 0, host: '127.0.0.1' })
}

function serverOptions ({ env, logger }: TestServerOptions): ServerOptions {
  return { ...(env !== undefined && { env }), ...(logger !== undefined && { logger }) }
}
