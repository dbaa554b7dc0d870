/** `app.openapi`: the documents of the app, composed at the first call. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import type { JsonSchema } from '../../lib/expressions/types.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import { type ComposedDocument, composeDocument } from './document.js'
import type { DocumentedRoute } from './documentation.js'

const maxExtended = 100 // documents with further routes in memory: the most recently used
const maxBytes = 20_000_000 // of them together

/** Operations for callers of a tenant only: those of its own routes. */
export interface FurtherRoutes {
  /** The document is composed in turns of this tenant. */
  readonly tenant: TenantId
  /** Equal for the same routes only. */
  readonly key: string
  /** The routes are taken one by one, with yields between them. Expensive work belongs into the iterator. */
  routes(): Iterable<DocumentedRoute>
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    /** Further routes of `GET /doc` for a caller; null adds none. */
    documentation(request: FastifyRequest): FurtherRoutes | null | Promise<FurtherRoutes | null>
  }
}

/** `app.openapi`. */
export interface OpenApi {
  /** The document as JSON text, composed on the first call after a change. */
  text(): string
  /** Marks the document as outdated after a change of a route's documentation. */
  invalidate(): void
}

/** `app.openapi`, with this plugin's own members. */
export interface OpenApiService extends OpenApi {
  /** The document of `GET /doc`: with the routes of the caller's tenant. */
  textFor(request: FastifyRequest): Promise<string | Buffer>
  add(route: DocumentedRoute): void
  /** Completes a document that @fastify/swagger has begun. */
  fill(outline: JsonSchema): ComposedDocument
}

/**
 * @param shell returns the document of @fastify/swagger
 * @param contexts the contexts of the shared schemas that routes refer to
 */
export function createOpenApi (app: FastifyInstance, shell: () => JsonSchema, contexts: Iterable<FastifyInstance>): OpenApiService {
  const documents = optional(app, 'tenantDocuments')
  const routes: DocumentedRoute[] = []
  let composed: ComposedDocument | null = null
  let filled: ReadonlySet<string> = new Set()

  function compose (shell: JsonSchema, replaced: ReadonlySet<string>): ComposedDocument {
    const schemas: JsonSchema = Object.assign({}, ...Array.from(contexts, (context) => context.getSchemas()))
    const [tenancy, idempotency] = [app.hasDecorator('tenancy'), app.hasDecorator('idempotency')]
    return composeDocument({ shell, routes, schemas, replaced, tenancy, idempotency })
  }

  function serverDocument (): ComposedDocument {
    if (composed !== null) return composed
    // The app's own @fastify/swagger calls `fill` meanwhile.
    const outline = shell()
    composed = compose(outline, filled)
    return composed
  }

  // Concurrent requests share one composition. If it becomes outdated meanwhile, these requests still get it, but later ones do not.
  const extended = new LRUCache<string, Buffer, FurtherRoutes>({
    max: maxExtended,
    maxSize: maxBytes,
    sizeCalculation: ({ length }) => length,
    ignoreFetchAbort: true,
    fetchMethod: (_key, _stale, { context: { routes, tenant } }) => serverDocument().extended(routes(), tenant)
  })

  const service: OpenApiService = {
    text: () => serverDocument().text,
    async textFor (request) {
      const further = await documents()?.documentation(request) ?? null
      if (further === null) return service.text()
      const document = await extended.forceFetch(further.key, { context: further })
      // Requests that waited for the same document are answered one by one, with yields: each response may have megabytes.
      await createYielder(further.tenant).yield()
      return document
    },
    invalidate () {
      composed = null
      extended.clear()
    },
    add (route) {
      routes.push(route)
      service.invalidate()
    },
    fill (outline) {
      const document = compose(outline, new Set())
      filled = new Set(document.schemaNames)
      return document
    }
  }
  return service
}
