/** `/tenants`, where platform administrators manage tenants, and `/tenant/info`. */
import { Type } from 'typebox'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure } from '../../lib/errors.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageQuery, readPage, searchQuery } from '../../lib/http/page.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Success, Time } from '../../lib/http/schemas.js'
import { storablePattern } from '../../lib/json/storable.js'
import { bytesPerMB, type Plans, unlimited } from '../../lib/plans/plans.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf } from '../auth/actor.js'

const Id = Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$', description: 'The id of the tenant: 1 to 64 characters of `A-Z a-z 0-9 _ -`.' })
const Name = Type.String({ minLength: 1, maxLength: 200, pattern: storablePattern })
const Plan = Type.String({ description: "The tier of the tenant's plan." })

const Status = Type.Enum(['active', 'suspended', 'deleting'], {
  description:
    "The status of the tenant. `suspended`: all requests of the tenant are rejected; `deleting`: the tenant's data is being deleted, or the deletion was interrupted."
})

const Managed = named(
  'Tenant',
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    plan: Plan,
    status: Status,
    createdAt: Time()
  })
)

const Query = ClosedObject({
  status: Type.Optional(Status),
  plan: Type.Optional(Type.String({ minLength: 1, maxLength: 200, pattern: storablePattern, description: "The tier of the tenant's plan." })),
  ...searchQuery('the id or the name'),
  ...pageQuery('Tenants')
})

const List = ListOf(Managed)

/** The bodies; a plan must be one of the server's. */
function bodiesOf (tiers: readonly string[]) {
  const plan = Type.Optional(Type.Enum([...tiers]))
  const New = ClosedObject({ id: Id, name: Name, plan })
  const Changes = ClosedObject({
    name: Type.Optional(Name),
    plan,
    status: Type.Optional(
      Type.Enum(['active', 'suspended'], { description: 'The new status. `suspended`: all requests of the tenant are rejected.' })
    )
  }, { minProperties: 1 })
  return { New, Changes }
}

const Params = Type.Object({ id: Id })

const Info = named(
  'TenantInfo',
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    plan: Plan,
    createdAt: Time(),
    limits: Type.Object({
      apiCalls: Type.Number(
        { description: 'The number of requests per minute. Requests are counted unless the document has `rateLimit.enabled` false.' }
      ),
      llmTokens: Type.Number({ description: 'The number of tokens per month.' }),
      storage: Type.Number({ description: 'The total size of files in bytes.' })
    }, { description: 'The limits and features of the plan; -1 means unlimited.' })
  })
)

const tags = ['Tenants']
const config = { access: 'platform-admin' } as const
const refusals = [400, 401, 403, 429, 500, 503] as const

export function tenantRoutes (app: FastifyGroup, plans: Plans, deletionWaitMs: number): void {
  const prefix = prefixOf(app)
  const { tenants } = app
  const { New, Changes } = bodiesOf(plans.tiers)

  app.get('/tenants', {
    config,
    schema: {
      tags,
      summary: 'List tenants',
      querystring: Query,
      response: { 200: List, ...errorResponses(...refusals) }
    }
  }, (request) => readPage(request, (page) => tenants.list({ ...request.query, ...page })))

  app.post('/tenants', {
    config: { ...config, idempotency: 'plain', location: true },
    schema: {
      tags,
      summary: 'Create a tenant',
      description: 'The tenant has the plan `free` unless the body has another plan.',
      body: New,
      response: { 201: Managed, ...errorResponses(...refusals, 409) }
    }
  }, async (request, reply) => {
    const created = await tenants.create(request.body, actorOf(request))
    return reply.code(201).header('location', `${prefix}/tenants/${created.id}`).send(created)
  })

  app.get('/tenants/:id', {
    config,
    schema: { tags, summary: 'Retrieve a tenant', params: Params, response: { 200: Managed, ...errorResponses(...refusals, 404) } }
  }, async ({ params: { id } }) => {
    const tenant = await tenants.get(id)
    if (tenant === null) throw failure('tenantUnknown')
    return tenant
  })

  app.patch('/tenants/:id', {
    config,
    schema: {
      tags,
      summary: 'Update a tenant',
      params: Params,
      body: Changes,
      response: { 200: Managed, ...errorResponses(...refusals, 404, 409) }
    }
  }, async (request) => await tenants.update(request.params.id, request.body, actorOf(request)))

  app.delete('/tenants/:id', {
    config,
    schema: {
      tags,
      summary: 'Delete a tenant and all its data',
      description:
        'All requests of the tenant are rejected as soon as the deletion starts. 202: the deletion takes longer and continues; `GET /tenants/:id` is 404 at its end. After an error, send the request again to continue.',
      params: Params,
      response: { 200: Success, 202: Success, ...errorResponses(...refusals, 404, 409) }
    }
  }, async (request, reply) => {
    const { id } = request.params
    const { ended } = await tenants.beginDeletion(id, actorOf(request))
    if (!await settlesWithin(ended, deletionWaitMs)) {
      ended.catch((err: unknown) => {
        app.log.warn({ err, tenant: id }, 'the deletion of a tenant was interrupted; a server continues it within the hour')
      })
      reply.code(202)
    }
    return { success: true }
  })

  app.get('/tenant/info', {
    config: { access: 'user' },
    schema: {
      tags,
      summary: "Retrieve the caller's tenant and its plan",
      response: { 200: Info, ...errorResponses(...refusals, 404) }
    }
  }, async ({ tenant }) => {
    if (tenant === null) throw failure('tenantRequired')
    const { api, ai, fileStorage: { maxStorageMB } } = plans.of(tenant.plan).limits
    const { id, name, plan, createdAt } = tenant
    const storage = maxStorageMB === unlimited ? unlimited : maxStorageMB * bytesPerMB
    return {
      id,
      name,
      plan,
      createdAt,
      limits: { apiCalls: api.requestsPerMinute, llmTokens: ai.llmTokensPerMonth, storage }
    }
  })
}
