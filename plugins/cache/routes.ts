/**
 * `/cache`, where administrators of the platform read and clear cached responses. The parameter `tenant`, else X-Tenant-ID, names the
 * tenant.
 */
import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { everyTenant } from '../../lib/cache/store.js'
import { writeAudit } from '../../lib/database/audit.js'
import { failure } from '../../lib/errors.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageOf, pageQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Success } from '../../lib/http/schemas.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf } from '../auth/actor.js'

const maxOffset = 100_000 // keys; a store reads all earlier keys to find a page

const tenant = (without: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      expected: 'the id of a tenant: 1 to 64 of `A-Z a-z 0-9 _ -`',
      description: `The id of a tenant. Without \`tenant\` and \`X-Tenant-ID\`: ${without}.`
    })
  )
const TenantQuery = (without: string) => ClosedObject({ tenant: tenant(without) })

const Stats = named(
  'CacheStats',
  Type.Object({
    provider: Type.String({ description: 'The store of cached responses: `memory`, `redis`, `lmdb`, or the name of your own store.' }),
    shared: Type.Boolean({
      description:
        'True if all instances share one cache. Otherwise each instance has its own cache, and the statistics are those of one instance.'
    }),
    items: Type.Integer({ description: 'The number of cached responses.' }),
    bytes: Type.Integer({ description: 'The estimated size of the cached responses.' }),
    hits: Type.Integer({ description: 'The number of requests served from the cache since this process started.' }),
    misses: Type.Integer({ description: 'The number of requests not found in the cache since this process started.' })
  })
)

const KeysQuery = ClosedObject({ tenant: tenant('the keys of the platform'), ...pageQuery('Keys', maxOffset) })

const Keys = ListOf(
  Type.String({
    description:
      'The key of a cached response. It starts with 16 characters derived from the definition of the route. Then come `f` for callers who receive all fields or `r` for others, and the tenant with the time of its creation. The method, path, query string and further inputs of the response follow. In a long key everything after the first 16 characters is replaced by its SHA-256 hash.'
  })
)

const KeyParams = Type.Object({ key: Type.String({ minLength: 1, description: 'The key as listed, percent-encoded.' }) })

const tags = ['Cache']
const config = { access: 'platform-admin' } as const
const refusals = [400, 401, 403, 429, 500, 503] as const

export function cacheRoutes (app: FastifyGroup): void {
  const { cache, events, log } = app

  if (!cache.shared) {
    const end = events.on('cache', (cleared) => {
      Promise.resolve(cache.clear(cleared === platformRef ? everyTenant : cleared)).catch((err: unknown) =>
        log.error({ err, ...cleared !== platformRef && { tenant: cleared } }, 'cached responses could not be cleared')
      )
    })
    app.addHook('onClose', async () => end())
  }

  app.get('/cache/stats', {
    config,
    schema: {
      tags,
      summary: 'Retrieve statistics of the cache',
      querystring: TenantQuery('the statistics of all tenants and the platform'),
      response: { 200: Stats, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const { items, bytes, hits, misses } = await cache.stats(tenantIn(request) ?? everyTenant)
    return { provider: cache.provider, shared: cache.shared, items, bytes, hits, misses }
  })

  app.get('/cache/keys', {
    config,
    schema: {
      tags,
      summary: 'List keys of cached responses',
      description: 'The order is stable while no response is stored or expires.',
      querystring: KeysQuery,
      response: { 200: Keys, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const tenant = tenantIn(request) ?? ''
    const page = pageOf(request)
    const [keys, { items }] = await Promise.all([cache.keys(tenant, page.offset + page.limit), cache.stats(tenant)])
    return { data: keys.slice(page.offset, page.offset + page.limit), pagination: { ...page, total: items } }
  })

  app.delete('/cache/clear', {
    config,
    schema: {
      tags,
      summary: 'Clear cached responses on every instance',
      querystring: TenantQuery('the responses of all tenants and the platform'),
      response: {
        200: Type.Object({
          success: Type.Boolean(),
          removed: Type.Integer(
            { description: 'The number of deleted responses; if each instance has its own cache, the number on this instance.' }
          )
        }),
        ...errorResponses(...refusals)
      }
    }
  }, async (request) => {
    const tenant = tenantIn(request)
    const { items } = await cache.stats(tenant ?? everyTenant)
    const entry = entryOf(request, 'cache.clear')
    await events.change({ topic: 'cache', tenant: tenant ?? '' }, (transaction) => writeAudit(transaction, entry))
    await cache.clear(tenant ?? everyTenant)
    return { success: true, removed: items }
  })

  app.delete('/cache/key/:key', {
    config,
    schema: {
      tags,
      summary: 'Delete a cached response',
      description: 'If each instance has its own cache, the response is deleted on this instance only.',
      params: KeyParams,
      querystring: TenantQuery('a response of the platform'),
      response: { 200: Success, ...errorResponses(...refusals, 404) }
    }
  }, async (request) => {
    const tenant = tenantIn(request)
    const { key } = request.params
    await app.db.transaction().execute(async (transaction) => {
      if (!await cache.delete(tenant ?? '', key)) throw failure('notFound')
      // Keys contain values of callers, so the log has a digest.
      await writeAudit(transaction, { ...entryOf(request, 'cache.delete'), target: `sha256:${hash('sha256', key)}` })
    })
    return { success: true }
  })
}

type TenantRequest = FastifyRequest & { readonly query: { tenant?: string } }

function entryOf (request: TenantRequest, action: 'cache.clear' | 'cache.delete') {
  const tenant = tenantIn(request)
  return { tenant: platformRef, action, actor: actorOf(request), details: { ...tenant !== undefined && { tenant } }, at: new Date() }
}

/** undefined if the request names no tenant. */
function tenantIn (request: TenantRequest): string | undefined {
  // Without the plugin tenancy no request has one.
  return request.query.tenant ?? request.tenant?.id
}
