/**
 * `/cache`, where administrators of the platform read and clear cached responses. The parameter `tenant`, else X-Tenant-ID, names the
 * tenant.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { writeAudit } from '../../lib/database/audit.js'
import { failure } from '../../lib/errors.js'
import { actorOf } from '../auth/actor.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageOf, pageQuery, slice } from '../../lib/http/page.js'
import { named } from '../../lib/validation/named-schema.js'
import { Success } from '../../lib/http/schemas.js'
import { everyTenant } from '../../lib/cache/store.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

const maxOffset = 100_000 // keys; a store reads all earlier keys to find a page

const tenant = (without: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      expected: 'the id of a tenant: 1 to 64 of `A-Z a-z 0-9 _ -`',
      description: `The id of a tenant. Without it, and without X-Tenant-ID: ${without}.`
    })
  )
const Whose = (without: string) => Type.Object({ tenant: tenant(without) }, { additionalProperties: false })

const Stats = named(
  'CacheStats',
  Type.Object({
    provider: Type.String({ description: 'Where answers are kept: `memory`, `redis`, `lmdb`, or the name of a store of your own.' }),
    shared: Type.Boolean({ description: 'All instances have the one cache; else each has its own, and these figures are those of one.' }),
    items: Type.Integer({ description: 'Answers that are kept.' }),
    bytes: Type.Integer({ description: 'What they take, as it is estimated.' }),
    hits: Type.Integer({ description: 'Answers that were found, since this process started.' }),
    misses: Type.Integer({ description: 'Those that were not.' })
  })
)

const KeysQuery = Type.Object({
  tenant: tenant("those of the platform's own"),
  ...pageQuery('Keys', maxOffset)
}, { additionalProperties: false })

const Keys = ListOf(
  Type.String({
    description:
      'A key begins with 16 characters that stand for what the document says of the route; then comes `f` where it is of callers who get all fields, else `r`; then tenant, method, path, query string and what else the answer is made from. Of a long one all after the first 16 is its SHA-256.'
  })
)

const KeyParams = Type.Object({ key: Type.String({ minLength: 1, description: 'As it is listed, percent-encoded.' }) })

const tags = ['Cache']
const config = { access: 'platform-admin' } as const
const refusals = [400, 401, 403, 429, 500, 503] as const

export function cacheRoutes (app: FastifyInstance): void {
  const { cache, events, log } = app

  if (!cache.shared) {
    const end = events.on('cache', (cleared) => {
      Promise.resolve(cache.clear(cleared === platformRef ? everyTenant : cleared)).catch((err: unknown) =>
        log.error({ err, ...cleared !== platformRef && { tenant: cleared } }, 'cached answers could not be cleared')
      )
    })
    app.addHook('onClose', async () => end())
  }

  app.get<{ Querystring: Static<ReturnType<typeof Whose>> }>('/cache/stats', {
    config,
    schema: {
      tags,
      summary: 'Retrieve statistics of the cache',
      querystring: Whose('those of all tenants, and of the platform'),
      response: { 200: Stats, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const { items, bytes, hits, misses } = await cache.stats(whose(request) ?? everyTenant)
    return { provider: cache.provider, shared: cache.shared, items, bytes, hits, misses }
  })

  app.get<{ Querystring: Static<typeof KeysQuery> }>('/cache/keys', {
    config,
    schema: {
      tags,
      summary: 'List keys of cached responses',
      description: 'The order holds as long as nothing is stored and nothing ends.',
      querystring: KeysQuery,
      response: { 200: Keys, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const of = whose(request) ?? ''
    const page = pageOf(request)
    const [keys, { items }] = await Promise.all([cache.keys(of, page.offset + page.limit), cache.stats(of)])
    return { data: slice(keys, page), pagination: { ...page, total: items } }
  })

  app.delete<{ Querystring: Static<ReturnType<typeof Whose>> }>('/cache/clear', {
    config,
    schema: {
      tags,
      summary: 'Clear cached responses on every instance',
      querystring: Whose('all of them'),
      response: {
        200: Type.Object({
          success: Type.Boolean(),
          removed: Type.Integer({ description: 'How many there were; where each instance has its own cache, in this one.' })
        }),
        ...errorResponses(...refusals)
      }
    }
  }, async (request) => {
    const of = whose(request)
    const { items } = await cache.stats(of ?? everyTenant)
    const entry = {
      tenant: platformRef,
      action: 'cache.clear',
      actor: actorOf(request),
      details: { ...of !== undefined && { tenant: of } },
      at: new Date()
    } as const
    await events.change({ topic: 'cache', tenant: of ?? '' }, (transaction) => writeAudit(transaction, entry))
    await cache.clear(of ?? everyTenant)
    return { success: true, removed: items }
  })

  app.delete<{ Params: Static<typeof KeyParams>, Querystring: Static<ReturnType<typeof Whose>> }>('/cache/key/:key', {
    config,
    schema: {
      tags,
      summary: 'Delete a cached response',
      description: 'Where each instance has its own cache: of this one.',
      params: KeyParams,
      querystring: Whose("one of the platform's own"),
      response: { 200: Success, ...errorResponses(...refusals, 404) }
    }
  }, async (request) => {
    const of = whose(request)
    const { key } = request.params
    await app.db.transaction().execute(async (transaction) => {
      if (!await cache.delete(of ?? '', key)) throw failure('notFound')
      // Keys contain values of callers, so the log has a digest.
      const target = `sha256:${createHash('sha256').update(key).digest('hex')}`
      await writeAudit(transaction, {
        tenant: platformRef,
        action: 'cache.delete',
        actor: actorOf(request),
        target,
        details: { ...of !== undefined && { tenant: of } },
        at: new Date()
      })
    })
    return { success: true }
  })
}

/** undefined if the request names no tenant. */
function whose (request: FastifyRequest<{ Querystring: { tenant?: string } }>): string | undefined {
  // Without the plugin tenancy no request has one.
  return request.query.tenant ?? request.tenant?.id
}
