/** The endpoints of users' limits, and their schemas. */
import type {} from '../idempotency/index.js'
import type {} from '../users/index.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { maxAmount } from '../../lib/schema/resource-limit.js'
import { failure } from '../../lib/errors.js'
import { Percentage } from '../../lib/plans/percentage.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { actorOf } from '../auth/actor.js'
import { hasPermission } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { tenantOf } from '../tenancy/required.js'
import { periods } from './periods.js'
import { gateActions, maxRules, Name, Rule, type LimitedUser } from './rules.js'
import { ifMatchOf, IfMatchHeaders, withTag } from '../../lib/http/entity-tags.js'
import { named } from '../../lib/validation/named-schema.js'
import { optional } from '../../lib/plugin/optional.js'
import { limitedUser, rulesTag, type ResourceLimits } from './service.js'

const bodyLimit = 262_144 // bytes of all rules

const closed = { additionalProperties: false } as const
const UserId = Type.String({
  minLength: 1,
  maxLength: 1024,
  description: 'The `sub` of a user of the tenant. Default: the caller; another one needs the permission `limits:read`.'
})
const Role = Type.String({
  maxLength: 256,
  description:
    "The role of the user, for administrators and holders of `limits:write`. Default: that of the caller's token for the caller itself, that of a user with a password, and none for others, which is refused where limits depend on roles."
})
const Tier = Type.String({ maxLength: 256, description: 'The tier of the user, likewise.' })

const Rules = Type.Array(Rule, { maxItems: maxRules, description: 'In the order in which they were saved.' })
const UseBody = named(
  'LimitedUse',
  Type.Object({
    userId: Type.Optional(UserId),
    resource: Name('What is used.'),
    metric: Name('What is counted of it.'),
    amount: Type.Optional(Type.Integer({ minimum: 1, maximum: maxAmount, default: 1, description: 'How much.' })),
    role: Type.Optional(Role),
    tier: Type.Optional(Tier)
  }, closed)
)
const UsageQuery = Type.Object({ userId: Type.Optional(UserId), role: Type.Optional(Role), tier: Type.Optional(Tier) }, closed)

const Checked = named(
  'LimitCheck',
  Type.Object({
    allowed: Type.Boolean({ description: 'Whether there is room.' }),
    gateAction: Type.Union([Type.Enum([...gateActions]), Type.Null()], {
      description: 'Of the limit in this answer: the one with the least left, or a limit that refuses. null: nothing is limited.'
    }),
    usage: Type.Object({
      current: Type.Integer({ description: 'What was used in the period so far.' }),
      limit: Type.Integer({ description: '-1 is unlimited.' })
    })
  })
)
const Usage = Type.Array(
  Type.Object({
    resource: Type.String(),
    metric: Type.String(),
    period: Type.Enum([...periods]),
    current: Type.Integer(),
    limit: Type.Integer({ description: '-1 is unlimited.' }),
    percentage: Percentage,
    scope: Type.Enum(['user'])
  }),
  { description: 'Of each rule that is for the user.' }
)

const tags = ['Resource limits']
const reading = { access: 'user' } as const
const writing = { access: 'tenant-admin', permission: 'limits:write' } as const
const refusals = [400, 401, 403, 404, 429, 500, 503] as const

export function resourceLimitRoutes (app: FastifyInstance, service: ResourceLimits): void {
  const users = optional(app, 'users')
  app.get('/tenant/limits/resources', {
    config: reading,
    schema: { tags, summary: 'List limits of the tenant for its users', response: { 200: Rules, ...errorResponses(...refusals) } }
  }, async (request, reply) => {
    const rules = await service.rules(tenantOf(request))
    return withTag(request, reply, rulesTag(rules), rules)
  })

  app.put<{ Body: Static<typeof Rules> }>('/tenant/limits/resources', {
    config: writing,
    bodyLimit,
    schema: {
      tags,
      summary: 'Replace limits of the tenant for its users',
      description:
        `At most ${maxRules}; an empty list removes all. What was used of a resource and metric that no rule names any longer is forgotten.`,
      headers: IfMatchHeaders,
      body: Rules,
      response: { 200: Rules, ...errorResponses(...refusals, 412, 413) }
    }
  }, async (request, reply) => {
    const rules = await service.replace(tenantOf(request), request.body, actorOf(request), ifMatchOf(request))
    reply.header('etag', rulesTag(rules))
    return rules
  })

  app.get<{ Querystring: Static<typeof UsageQuery> }>('/tenant/limits/resources/usage', {
    config: reading,
    schema: {
      tags,
      summary: 'List the usage of a user',
      querystring: UsageQuery,
      response: { 200: Usage, ...errorResponses(...refusals) }
    }
  }, async (request) => service.usage(await userOf(request, request.query, { part: '/query', others: 'limits:read' })))

  app.post<{ Body: Static<typeof UseBody> }>(
    '/tenant/limits/resources/check',
    {
      config: reading,
      schema: {
        tags,
        summary: 'Check whether a user may use an amount',
        body: UseBody,
        response: { 200: Checked, ...errorResponses(...refusals) }
      }
    },
    async (request) =>
      service.check(await userOf(request, request.body, { part: '/body', others: 'limits:read', of: request.body }), useOf(request.body))
  )

  app.post<{ Body: Static<typeof UseBody> }>('/tenant/limits/resources/track', {
    config: { ...writing, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Track usage of a user',
      description:
        'Past a limit that blocks it is refused with 402, and nothing is counted. Past any other it is counted, and `allowed` is false.',
      body: UseBody,
      response: { 200: Checked, ...errorResponses(...refusals, 'resourceLimit', 409) }
    }
  }, async (request) => {
    const user = await userOf(request, request.body, { part: '/body', others: writing.permission, of: request.body })
    // Without the plugin idempotency requests have no keys.
    return await service.track(user, useOf(request.body), request.idempotency ?? undefined)
  })

  /** The user of a request. */
  async function userOf (
    request: FastifyRequest,
    { userId, role: named, tier }: Static<typeof UsageQuery>,
    { part, others, of }: About
  ): Promise<LimitedUser> {
    const tenant = tenantOf(request)
    // Naming another role could raise a caller's own limit, so it needs a permission.
    if ((named !== undefined || tier !== undefined) && !await hasPermission(request, 'limits:write')) {
      throw failure('forbidden', { message: 'Only an administrator names the role or the tier of a user' })
    }
    const own = limitedUser(request)
    if (own !== null && (userId === undefined || userId === own.id)) {
      return { ...own, ...named !== undefined && { role: named }, ...tier !== undefined && { tier } }
    }
    if (userId === undefined) throw invalidInput(`${part}/userId`, 'is required: you are no user of the tenant', 'required')
    if (!await hasPermission(request, others)) {
      throw failure('forbidden', { message: `What other users have used is for administrators and holders of ${others}` })
    }
    const role = named ?? (await users()?.find(tenant, userId))?.role
    if (role === undefined && await service.needsRole(tenant, of)) {
      throw invalidInput(`${part}/role`, 'is required: limits depend on the role of the user, which this server does not know', 'required')
    }
    return { tenant, id: userId, role, tier }
  }
}

/** How a request names its user. */
interface About {
  readonly part: string
  /** The permission to name another user. */
  readonly others: string
  /** The used resources. Default: all limited ones. */
  readonly of?: { readonly resource: string, readonly metric: string }
}

function useOf ({ resource, metric, amount = 1 }: Static<typeof UseBody>) {
  return { resource, metric, amount }
}
