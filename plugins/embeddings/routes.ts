/** The endpoints of documents and search. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import { leftOf } from '../../lib/http/caller-left.js'
import { callerErrors, errorResponses } from '../../lib/http/error-schemas.js'
import { readPage } from '../../lib/http/page.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { IdParams, Success } from '../../lib/http/schemas.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { actorOf } from '../auth/actor.js'
import { limitedUser } from '../resource-limits/service.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import type { Batches } from './batches.js'
import {
  Batch, BatchQueued, BatchStatus, checkDocument, checkFilter, Document, DocumentList, DocumentParams,
  ListQuery, Put, Reindexing, Results, SearchBody, Texts, Vectors
} from './schemas.js'
import type { EmbeddingsService } from './service.js'

const tags = ['Documents and search']
const config = { access: 'user' } as const
const modelErrors = callerErrors(402, 424, 502, 504)

export interface EmbeddingRouteParts {
  readonly service: EmbeddingsService
  readonly batches: Batches
  /** Starts to embed stale documents again. Returns false if there are none. */
  readonly reindex: () => Promise<boolean>
  /** Throws for a file that the caller may not read. */
  readonly requireFile: (request: FastifyRequest, tenant: Owner, fileId: string) => Promise<void>
}

export function embeddingRoutes (app: FastifyGroup, { service, batches, reindex, requireFile }: EmbeddingRouteParts): void {
  const prefix = prefixOf(app)
  const callOf = (request: FastifyRequest, reply: FastifyReply) => ({
    life: requiredTenant(request).life,
    user: limitedUser(request),
    signal: leftOf(reply),
    actor: actorOf(request)
  })

  app.post('/agent/embeddings', {
    config,
    schema: { tags, summary: 'Create embeddings of texts', body: Texts, response: { 200: Vectors, ...modelErrors } }
  }, async (request, reply) => {
    const { embeddings, model, usage } = await service.embed(tenantOf(request), request.body.texts, callOf(request, reply))
    return { embeddings: embeddings.map((vector) => [...vector]), model, usage }
  })

  app.post('/agent/embeddings/document', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Store a document for search',
      description:
        'The text is split at headings and paragraphs into chunks of at most 400 tokens. A document with the same id is replaced, and the response has the status 200.',
      body: Document,
      response: { 200: Put, 201: Put, ...modelErrors, ...errorResponses(413, 422) }
    }
  }, async (request, reply) => {
    const tenant = tenantOf(request)
    const { body } = request
    checkDocument(body, '/body')
    if (body.fileId !== undefined) await requireFile(request, tenant, body.fileId)
    const { id, isNew, chunks, usage } = await service.put(tenant, body, callOf(request, reply))
    return reply.code(isNew ? 201 : 200).send({ success: true, id, chunks, usage })
  })

  app.post('/agent/embeddings/batch', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Store documents in the background',
      description: 'A background job stores the documents in order. A document that fails does not stop the others.',
      body: Batch,
      response: { 202: BatchQueued, ...callerErrors(413) }
    }
  }, async (request, reply) => {
    const tenant = tenantOf(request)
    const { documents } = request.body
    for (const [index, document] of documents.entries()) {
      checkDocument(document, `/body/documents/${index}`)
      if (document.fileId !== undefined) await requireFile(request, tenant, document.fileId)
    }
    const { batchId, total } = await batches.add(tenant, documents, actorOf(request), limitedUser(request))
    return reply.code(202).send({ batchId, status: 'queued', total, statusUrl: `${prefix}/agent/embeddings/batch/${batchId}` })
  })

  app.get('/agent/embeddings/batch/:id', {
    config,
    schema: {
      tags,
      summary: 'Retrieve the progress of a batch',
      description: 'The status is kept for 7 days after the batch has ended.',
      params: IdParams,
      response: { 200: BatchStatus, ...callerErrors() }
    }
  }, async (request) => {
    const state = await batches.state(tenantOf(request), request.params.id)
    if (state === null) throw failure('notFound')
    return state
  })

  app.get('/agent/embeddings/documents', {
    config,
    schema: {
      tags,
      summary: 'List documents of the tenant, newest first',
      querystring: ListQuery,
      response: { 200: DocumentList, ...callerErrors() }
    }
  }, (request) => readPage(request, (page) => service.list(tenantOf(request), page)))

  app.delete('/agent/embeddings/document/:id', {
    config,
    schema: { tags, summary: 'Delete a document', params: DocumentParams, response: { 200: Success, ...callerErrors() } }
  }, async (request) => {
    if (!await service.remove(tenantOf(request), request.params.id, actorOf(request))) throw failure('notFound')
    return { success: true }
  })

  app.post('/agent/embeddings/search', {
    config,
    schema: {
      tags,
      summary: 'Search documents of the tenant',
      body: SearchBody,
      response: { 200: Results, ...modelErrors }
    }
  }, async (request, reply) => {
    const { body } = request
    checkFilter(body.filter ?? {}, '/body/filter')
    const { results, usage } = await service.search(tenantOf(request), body, callOf(request, reply))
    return { results: [...results], usage }
  })

  app.post('/agent/embeddings/reindex', {
    config: { access: 'platform-admin' },
    schema: {
      tags,
      summary: 'Embed outdated documents again',
      description:
        'Embeds documents of all tenants again that were embedded with another model. A background job does this; its tokens count as usage of the tenants. You can start it again at any time.',
      response: { 202: Reindexing, ...callerErrors() }
    }
  }, async (_request, reply) => reply.code(202).send({ success: true, stale: await reindex() }))
}
