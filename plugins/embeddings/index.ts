/**
 * Embeddings, documents and search: `app.embeddings` and the endpoints under `/agent/embeddings`. The SQL database stores the text
 * of documents; pgvector or Qdrant stores their vectors.
 */
import type { FastifyRequest } from 'fastify'
import { defaultDimensions } from '../../lib/database/document-tables.js'
import { ifUnmigrated } from '../../lib/database/failures.js'
import { failure } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, flag, section, whole } from '../../lib/plugin/options.js'
import { Agent } from '../../lib/schema/agent.js'
import { openVectorStore } from '../../lib/vectors/open.js'
import type { VectorSpace, VectorStore, VectorStoreSection } from '../../lib/vectors/types.js'
import { requirePermissions } from '../auth/access.js'
import type { Files } from '../files/types.js'
import { batchTask, createBatches } from './batches.js'
import { createReader } from './reader.js'
import { createReindex, reindexTask } from './reindex.js'
import { embeddingRoutes } from './routes.js'
import { createEmbeddings } from './service.js'

export type {
  DocumentCall, DocumentType, EmbeddingCall, Embeddings, NewDocument, PutDocument, Search, SearchMode, SearchResult
} from './types.js'

export type {} from './types.js'

export interface EmbeddingsOptions extends ClockOption {
  /** Numbers of a vector, 1 to 2,000. Default: 1536. */
  readonly dimensions?: number | undefined
  /** Whether to start although another model embedded documents. `POST /agent/embeddings/reindex` embeds them again. Default: false. */
  readonly reindex?: boolean | undefined
  /** The document's `agent.vectorStore`. Default: pgvector, for which the plugin database needs `vectorTable`. */
  readonly vectorStore?: VectorStoreSection | undefined
  /** Chunks of a tenant up to which pgvector searches without an index, 0 to 1,000,000. Default: 2,000. */
  readonly exactUpTo?: number | undefined
}

export default definePlugin<EmbeddingsOptions>({
  name: 'embeddings',
  dependencies: ['database', 'tenancy', 'queue', 'models'],
  optional: ['files'],
  routeDependencies: ['auth'],
  options: {
    dimensions: whole(1, 2000),
    reindex: flag,
    vectorStore: section(Agent.properties.vectorStore),
    exactUpTo: whole(0, 1_000_000),
    now: callback
  },
  async setup (
    app,
    { dimensions = defaultDimensions, reindex = false, vectorStore = { provider: 'pgvector' }, exactUpTo, now = Date.now }
  ) {
    const { db, engine, log, models, queue, tenants } = app
    if (models.embeddingModel === null) throw new Error('embeddings needs a model: the configuration has no agent.embedding')
    const space = { model: models.embeddingModel.model, dimensions }
    const warn = (err: unknown, message: string) => log.warn({ err }, message)
    const store = await openVectorStore({ engine, section: vectorStore, space, warn, exactUpTo, now })
    if (!reindex) await refuseStale(store, space)

    const files = optional(app, 'files')
    const service = createEmbeddings({ models, space, store, reader: createReader({ models, files }), tenants, now })
    const batches = createBatches({ db, dbFor: (tenant) => engine.kyselyFor(tenant), queue, service, now })
    const batchOptions = {
      retryLimit: 20,
      retryDelay: 5,
      expireIn: 86_400,
      setAside: batches.setAside,
      endpoints: 'POST /agent/embeddings/batch sends its documents'
    }
    queue.define(batchTask, batchOptions, batches.handle)
    const reindexOptions = {
      retryLimit: 20,
      retryDelay: 60,
      expireIn: 86_400,
      concurrency: 1,
      endpoints: 'POST /agent/embeddings/reindex starts it'
    }
    queue.define(reindexTask, reindexOptions, createReindex({ store, service, log }))

    const { embed, put, remove, list, read, search, check } = service
    app.decorate('embeddings', { store: service.store, embed, put, remove, list, read, search, check })
    tenants.onDelete((tenant) => store.removeAll(tenant))
    sweepHourly(app, 'old batches of documents, and vectors that no document has', () => Promise.all([batches.sweep(), store.sweep()]))
    app.addHook('onClose', () => service.close())

    return (group) =>
      embeddingRoutes(group, {
        service,
        batches,
        requireFile: (request, tenant, fileId) => requireFile(files(), request, tenant, fileId),
        async reindex () {
          const [stale] = await store.stale(1)
          if (stale !== undefined) await queue.send(reindexTask, { tenant: platformRef, data: {}, key: 'reindex' })
          return stale !== undefined
        }
      })
  }
})

/** Vectors of different models are not comparable. */
async function refuseStale (store: VectorStore, { model, dimensions }: VectorSpace): Promise<void> {
  // The routes report a database that is not migrated.
  const [stale] = await store.stale(1).catch(ifUnmigrated([]))
  if (stale === undefined) return
  throw new Error(
    `documents were embedded with "${stale.model}" (${stale.dimensions} dimensions, in ${stale.store}), but the configuration names "${model}" (${dimensions} dimensions, in ${store.name}): restore it, or set agent.embedding.reindex to true, start, and send POST /agent/embeddings/reindex`
  )
}

/** Rejects with `notFound`, and with `forbidden` for files in a bucket that the caller may not use. */
async function requireFile (
  files: Pick<Files, 'get' | 'permissions'> | null,
  request: FastifyRequest,
  tenant: Owner,
  fileId: string
): Promise<void> {
  const file = await files?.get(tenant, fileId) ?? null
  const permissions = file === null ? null : files?.permissions(file.bucket) ?? null
  if (file === null || permissions === null) throw failure('notFound', { message: 'The tenant has no such file' })
  await requirePermissions(request, permissions)
  if (file.scan !== undefined) throw failure('notFound', { message: 'The file is in quarantine: wait until it has been scanned' })
}
