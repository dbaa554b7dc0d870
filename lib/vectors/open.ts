/** Opens the configured vector store. */
import type { Engine } from '../database/engine.js'
import type { Owner } from '../identity/tenant-ref.js'
import { createPgvectorIndex } from './pgvector.js'
import { openQdrantIndex } from './qdrant.js'
import { createDocumentRecords } from './records.js'
import { createVectorStore } from './store.js'
import type { VectorSpace, VectorStore, VectorStoreSection } from './types.js'

interface OpenStoreOptions {
  readonly engine: Engine
  readonly section: VectorStoreSection
  readonly space: VectorSpace
  readonly warn: (error: unknown, message: string) => void
  /** The number of a tenant's chunks up to which pgvector searches exactly. Default: 2,000. */
  readonly exactUpTo?: number | undefined
  /** Milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function openVectorStore (
  { engine, section, space, warn, exactUpTo, now = Date.now }: OpenStoreOptions
): Promise<VectorStore> {
  const dbFor = (tenant: Owner) => engine.kyselyFor(tenant)
  const index = section.provider === 'qdrant'
    ? await openQdrantIndex({ ...section, url: requireUrl(section), space })
    : createPgvectorIndex({ space: tableSpace(engine, space), dbFor, exactUpTo })
  return createVectorStore({ index, records: createDocumentRecords(engine.kysely, dbFor, space, index.name), warn, now })
}

function requireUrl ({ url }: VectorStoreSection): string {
  if (url === undefined) throw new Error('agent.vectorStore.url is missing: set the URL of Qdrant, such as http://localhost:6333')
  return url
}

function tableSpace ({ vectorTable }: Engine, space: VectorSpace): VectorSpace {
  if (vectorTable?.dimensions === space.dimensions) return space
  throw new Error(
    `embeddings requires the table of its vectors: register the plugin "tenantry/plugins/database" with the option \`vectorTable: { dimensions: ${space.dimensions} }\``
  )
}
