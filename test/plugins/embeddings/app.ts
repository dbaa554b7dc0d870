/** An app with documents and search, on either engine, whose model counts words. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import type { EmbeddingsOptions } from '../../../plugins/embeddings/index.js'
import Fastify from 'fastify'
import audit from '../../../plugins/audit/index.js'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import embeddings from '../../../plugins/embeddings/index.js'
import files from '../../../plugins/files/index.js'
import idempotency from '../../../plugins/idempotency/index.js'
import openapi from '../../../plugins/openapi/index.js'
import queue from '../../../plugins/queue/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import { scanLog } from '../../helpers/log-scan.js'
import { fakeModels, modelsPlugin, type FakeModels } from '../../helpers/models.js'
import { pgvectorDatabase } from '../../helpers/pgvector.js'
import { testSecret, signToken, type TokenClaims } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'

export const dimensions = 64

export type Database = Pick<EngineOptions, 'provider' | 'postgres'>

export interface Opened {
  readonly app: FastifyInstance
  readonly models: FakeModels
  /** A user of the tenant. */
  readonly as: (tenant: string, claims?: TokenClaims) => Ask
  /** The platform's administrator. */
  readonly platform: Ask
}

export interface OpenOptions extends EmbeddingsOptions {
  readonly models?: FakeModels
  readonly workers?: number
  /** Default: the embedded engine. */
  readonly engine?: Database
}

export async function open (
  t: Test,
  { models = fakeModels(dimensions), workers = 2, engine = { provider: 'embedded' }, ...options }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the server') } })
  t.teardown(() => app.close())
  const vectorTable = options.vectorStore?.provider === 'qdrant' ? undefined : { dimensions: options.dimensions ?? dimensions }
  await app.register(database, { ...engine, migrate: 'auto', vectorTable })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(idempotency)
  await app.register(openapi)
  await app.register(audit)
  await app.register(queue, { workers })
  await app.register(files, { path: t.testdir() })
  await app.register(modelsPlugin(models))
  await app.register(embeddings, { dimensions, ...options })
  await app.ready()
  const as = (tenant: string, claims: TokenClaims = {}) =>
    caller(t, app, { token: signToken({ sub: 'ada', role: 'user', tenant_id: tenant, ...claims }) })
  return { app, models, as, platform: caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) }) }
}

/** The same test on both engines. */
export const engines: Readonly<Record<string, (t: Test) => Promise<Database>>> = {
  embedded: async () => ({ provider: 'embedded' }),
  postgres: async (t) => ({ provider: 'postgres', postgres: { connectionString: (await pgvectorDatabase(t)).connectionString } })
}
