/** `app.embeddings`: documents and search. */
import { randomUUID } from 'node:crypto'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { type Actor, type AuditAction, type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { storable } from '../../lib/json/storable.js'
import { markCharged } from '../../lib/models/failures.js'
import { addUsage, noUsage } from '../../lib/models/tokens.js'
import type { Models, ModelUsage } from '../../lib/models/types.js'
import type { AlsoWrite, Chunk, ChunkMatch, VectorSpace, VectorStore } from '../../lib/vectors/types.js'
import { type FindsTenants, presentTenant, requireSameLife } from '../tenancy/tenant.js'
import type { DocumentReader } from './reader.js'
import type { DocumentCall, EmbeddingCall, Embeddings, NewDocument, PutDocument } from './types.js'

const textsPerCall = 256
const atOnce = 16 // documents in this process
const ofTenant = 4
const waitMs = 10_000
const retryAfter = 5 // s
const candidates = 50 // of each list that a hybrid search fuses

export interface EmbeddingsParts {
  readonly models: Pick<Models, 'embed'>
  readonly space: VectorSpace
  readonly store: VectorStore
  readonly reader: DocumentReader
  readonly tenants: FindsTenants
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export interface EmbeddingsService extends Embeddings {
  /** Like `put`. `also` writes in the transaction of the document. */
  putWith(tenant: Owner, document: NewDocument, call: DocumentCall, also?: AlsoWrite): Promise<PutDocument>
  /** Embeds the text of a document again. Returns false if the document was deleted or replaced meanwhile. */
  renew(tenant: Owner, id: string, signal: AbortSignal): Promise<boolean>
  close(): Promise<void>
}

export function createEmbeddings ({ models, space, store, reader, tenants, now }: EmbeddingsParts): EmbeddingsService {
  const busy = () => failure('documentsBusy', retryIn(retryAfter))
  const limiter = createTenantLimiter({
    maxOfTenant: ofTenant, maxInAll: atOnce, maxWait: waitMs, tooManyOfTenant: busy, tooManyInAll: busy
  })

  /** Rejects with `tenantUnknown` if the tenant was deleted, also while the model embedded the texts. */
  async function embed (tenant: Owner, texts: readonly string[], { life: given, user, signal }: EmbeddingCall) {
    const before = await presentTenant(tenants, tenant, given)
    const { life } = before
    const embeddings: (readonly number[])[] = []
    let usage = noUsage
    for (let start = 0; start < texts.length; start += textsPerCall) {
      const part = texts.slice(start, start + textsPerCall)
      const call = { tenant, life, user, texts: part, dimensions: space.dimensions, signal }
      const embedded = await models.embed(call).catch((error: unknown) => {
        if (start > 0) markCharged(error)
        throw error
      })
      await afterCharge(async () => requireSameLife(tenants, before))
      embeddings.push(...embedded.embeddings)
      usage = addUsage(usage, embedded.usage)
    }
    return { embeddings, model: space.model, usage }
  }

  async function embedChunks (
    tenant: Owner,
    contents: readonly string[],
    call: EmbeddingCall
  ): Promise<{ chunks: Chunk[], usage: ModelUsage }> {
    const { embeddings, usage } = await embed(tenant, contents, call)
    return { usage, chunks: contents.map((content, position) => ({ position, content, embedding: embeddings[position] ?? [] })) }
  }

  function entry (tenant: Owner, action: AuditAction, actor: Actor, target: string, details?: Record<string, unknown>): AuditEntry {
    return { tenant, action, actor, target, details, at: new Date(now()) }
  }

  async function putWith (tenant: Owner, document: NewDocument, call: DocumentCall, also?: AlsoWrite): Promise<PutDocument> {
    const { id = randomUUID(), contentType, metadata = {} } = document
    const { life } = await presentTenant(tenants, tenant, call.life)
    return await limiter.run(tenant, async () => {
      const contents = await reader.read(tenant, document, call.signal)
      const { chunks, usage } = await embedChunks(tenant, contents, { ...call, life })
      const outcome = await afterCharge(() => store.put(tenant, { id, contentType, metadata, chunks }, {
        life,
        also: async (transaction, isNew) => {
          await also?.(transaction, isNew)
          await writeAudit(
            transaction,
            entry(tenant, isNew ? 'document.create' : 'document.replace', call.actor, id, { contentType, chunks: chunks.length })
          )
        }
      }))
      return { id, isNew: outcome === 'new', chunks: chunks.length, usage }
    })
  }

  return {
    store: store.name,
    embed,
    putWith,
    put: putWith,
    remove: (tenant: Owner, id, actor) =>
      store.remove(tenant, id, (transaction) => writeAudit(transaction, entry(tenant, 'document.delete', actor, id))),
    list: (tenant: Owner, page) => store.list(tenant, page),
    read: async (tenant: Owner, id) => (await store.read(tenant, id))?.contents ?? null,

    async search (tenant: Owner, { query, limit = 10, threshold, filter = {}, mode = 'vector' }, call) {
      const text = storable(query)
      if (mode === 'text') return { results: await store.byText(tenant, text, { limit, threshold, filter }), usage: noUsage }
      const { embeddings: [vector = []], usage } = await embed(tenant, [text], call)
      if (mode === 'vector') {
        return { results: await afterCharge(() => store.byVector(tenant, vector, { limit, threshold, filter })), usage }
      }
      const most = Math.max(limit, candidates)
      const lists = await afterCharge(() => Promise.all([
        store.byVector(tenant, vector, { limit: most, threshold, filter }),
        store.byText(tenant, text, { limit: most, filter })
      ]))
      return { results: fuse(lists).slice(0, limit), usage }
    },

    async renew (tenant, id, signal) {
      const document = await store.read(tenant, id)
      if (document === null) return false
      const { contents, version, contentType, metadata } = document
      const { chunks } = await embedChunks(tenant, contents, { user: null, signal })
      const outcome = await store.put(tenant, { id, contentType, metadata, chunks }, {
        version,
        also: (transaction) => writeAudit(transaction, entry(tenant, 'document.reindex', noActor, id))
      })
      return outcome !== 'changed'
    },

    check: () => store.check(),

    async close () {
      limiter.close()
      reader.close()
    }
  }
}

/** A retry would be charged again. */
async function afterCharge<Result> (work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    markCharged(error)
    throw error
  }
}

const k = 60

/**
 * Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): merges lists by rank, since their scores are not comparable. Best
 * first. The score is the sum of 1 / (60 + rank) over the lists.
 */
function fuse (lists: readonly (readonly ChunkMatch[])[]): ChunkMatch[] {
  const fused = new Map<string, ChunkMatch>()
  for (const list of lists) {
    for (const [index, found] of list.entries()) {
      const key = `${found.chunk} ${found.id}`
      fused.set(key, { ...found, score: (fused.get(key)?.score ?? 0) + 1 / (k + index + 1) })
    }
  }
  return [...fused.values()].sort((one, other) => other.score - one.score)
}
