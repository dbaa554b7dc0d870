/** A platform job that embeds documents again if another model embedded them or their vectors are in another store. */
import type { FastifyBaseLogger } from 'fastify'
import { TenantryError } from '../../lib/errors.js'
import type { VectorStore } from '../../lib/vectors/types.js'
import type { Job } from '../queue/index.js'
import type { EmbeddingsService } from './service.js'

export const reindexTask = 'embeddings.reindex'

const perRead = 100

export interface ReindexParts {
  readonly store: Pick<VectorStore, 'stale'>
  readonly service: Pick<EmbeddingsService, 'renew'>
  readonly log: FastifyBaseLogger
}

/** Returns the handler. It rejects while documents are left, so that the queue runs it again later. */
export function createReindex ({ store, service, log }: ReindexParts) {
  return async ({ signal }: Pick<Job, 'signal'>): Promise<void> => {
    const left = new Set<string>()
    let renewed = 0
    for (;;) {
      const stale = (await store.stale(perRead + left.size)).map(({ tenant, id }) => ({ tenant, id, key: JSON.stringify([tenant, id]) }))
        .filter(({ key }) => !left.has(key))
      if (stale.length === 0) break
      for (const { tenant, id, key } of stale) {
        signal.throwIfAborted()
        try {
          if (await service.renew(tenant, id, signal)) renewed++
        } catch (error) {
          if (signal.aborted || !(error instanceof TenantryError)) throw error
          left.add(key)
          log.warn({ tenant, code: error.code }, 'a document could not be embedded again')
        }
      }
    }
    log.info({ documents: renewed, left: left.size }, 'documents were embedded again')
    if (left.size > 0) throw new Error(`${left.size} documents could not be embedded again`)
  }
}
