/** An app with documents and search, on either engine, whose model counts words. */
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { EmbeddingsOptions } from '../../../plugins/embeddings/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import { type FakeModels, fakeModels, modelsPlugin } from '../../helpers/models.js'
import { pgvectorDatabase } from '../../helpers/pgvector.js'
import type { TokenClaims } from '../../helpers/tokens.js'
import type { Ask } from '../../http/caller.js'

export const dimensions = 64

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
  readonly engine?: TestEngine
}

export async function open (
  t: Test,
  { models = fakeModels(dimensions), workers = 2, engine = { provider: 'embedded' }, ...options }: OpenOptions = {}
): Promise<Opened> {
  const vectorTable = options.vectorStore?.provider === 'qdrant' ? undefined : { dimensions: options.dimensions ?? dimensions }
  const { app, as } = await testApp(t, {
    engine,
    before: (app) => app.register(modelsPlugin(models)),
    plugins: {
      database: { vectorTable },
      tenancy: {},
      idempotency: {},
      openapi: {},
      audit: {},
      queue: { workers },
      files: { path: t.testdir() },
      embeddings: { dimensions, ...options }
    }
  })
  return {
    app,
    models,
    as: (tenant, claims = {}) => as({ sub: 'ada', role: 'user', tenant_id: tenant, ...claims }),
    platform: as({ sub: 'root', role: 'admin' })
  }
}

/** Stores the file, and returns the document of it. */
export async function putPdf (app: FastifyInstance, tenant: string, bytes: Buffer) {
  const file = { name: 'a.pdf', contentType: 'application/pdf' as const }
  const { id } = await app.files.put(tenant, file, Readable.from([bytes]), { sub: 'ada', actor: { userId: 'ada', address: null } })
  return { contentType: file.contentType, fileId: id }
}

/** The same test on both engines. */
export const engines: Readonly<Record<string, (t: Test) => Promise<TestEngine>>> = {
  embedded: async () => ({ provider: 'embedded' }),
  postgres: async (t) => ({ provider: 'postgres', postgres: { connectionString: (await pgvectorDatabase(t)).connectionString } })
}
