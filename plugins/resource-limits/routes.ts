/** The endpoints of users' limits, and their schemas. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import { IfMatchHeaders, ifMatchOf, notModified, withTag } from '../../lib/http/caching.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { optional } from '../../lib/plugin/define.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { maxAmount } from '../../lib/schema/limits.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { hasPermission } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { tenantOf } from '../tenancy/required.js'
import { type LimitedUser, maxRules, Name, Rule } from './rules.js'
import { limitedUser, type ResourceLimits, rulesTag } from './service.js'
import { CheckResult, UsageEntry } from './usage.js'

const bodyLimit = 262_144 // bytes of all rules

const UserId = Type.String({
  minLength: 1,
  maxLength: 1024,
  description: 'The `sub` of a user of the tenant. Default: the caller. Another user requires the permission `limits:read`.'
})
const Role = Type.String({
  maxLength: 256,
  description:
    "The role of the user. Only administrators and holders of `limits:write` can send it. Default: for the caller, the role of the token; for a user with a password, the user's role. For other users the limits of all roles apply."
})
const Tier = Type.String({
  maxLength: 256,
  description: 'The tier of the user. Only administrators and holders of `limits:write` can send it. The default is that of `role`.'
})

const Rules = Type.Array(Rule, { maxItems: maxRules, description: 'The rules in the order in which they were saved.' })
const UseBody = named(
  'LimitedUse',
  ClosedObject({
    userId: Type.Optional(UserId),
    resource: Name('The name of the used resource.'),
    metric: Name('The counted metric of the resource.'),
    amount: Type.Optional(Type.Integer({ minimum: 1, maximum: maxAmount, default: 1, description: 'The amount.' })),
    role: Type.Optional(Role),
    tier: Type.Optional(Tier)
  })
)
const UsageQuery = ClosedObject({ userId: Type.Optional(UserId), role: Type.Optional(Role), tier: Type.Optional(Tier) })

const Usage = Type.Array(UsageEntry, { description: 'The usage for each rule that applies to the user.' })

const tags = ['Resource limits']
const reading = { access: 'user' } as const
const writing = { access: 'tenant-admin', permission: 'limits:write' } as const

export function resourceLimitRoutes (app: FastifyGroup, service: ResourceLimits): void {
  const users = optional(app, 'users')
  app.get('/tenant/limits/resources', {
    config: reading,
    schema: {
      tags,
      summary: 'List limits of the tenant for its users',
      response: { 200: Rules, 304: notModified, ...callerErrors() }
    }
  }, async (request, reply) => {
    const rules = await service.rules(tenantOf(request))
    return withTag(request, reply, rulesTag(rules), rules)
  })

  app.put('/tenant/limits/resources', {
    config: writing,
    bodyLimit,
    schema: {
      tags,
      summary: 'Replace limits of the tenant for its users',
      description:
        `Accepts at most ${maxRules} rules; an empty list removes all rules. The usage of a resource and metric without a remaining rule is deleted.`,
      headers: IfMatchHeaders,
      body: Rules,
      response: { 200: Rules, ...callerErrors(412, 413) }
    }
  }, async (request, reply) => {
    const rules = await service.replace(tenantOf(request), request.body, actorOf(request), ifMatchOf(request))
    reply.header('etag', rulesTag(rules))
    return rules
  })

  app.get('/tenant/limits/resources/usage', {
    config: reading,
    schema: {
      tags,
      summary: 'List the usage of a user',
      querystring: UsageQuery,
      response: { 200: Usage, ...callerErrors() }
    }
  }, async (request) => service.usage(await userOf(request, request.query, '/query', 'limits:read')))

  app.post('/tenant/limits/resources/check', {
    config: reading,
    schema: {
      tags,
      summary: 'Check whether a user may use an amount',
      body: UseBody,
      response: { 200: CheckResult, ...callerErrors() }
    }
  }, async (request) => service.check(await userOf(request, request.body, '/body', 'limits:read'), useOf(request.body)))

  app.post('/tenant/limits/resources/track', {
    config: { ...writing, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Track usage of a user',
      description:
        'If a blocking limit would be exceeded, responds with 402 and does not track the usage. If another limit would be exceeded, the usage is tracked and `allowed` is false.',
      body: UseBody,
      response: { 200: CheckResult, ...callerErrors('resourceLimit', 409) }
    }
  }, async (request) => {
    const user = await userOf(request, request.body, '/body', writing.permission)
    // Without the plugin idempotency requests have no keys.
    return await service.track(user, useOf(request.body), request.idempotency ?? undefined)
  })

  /** The user that a part of a request names. `others`: the permission to name another user than the caller. */
  async function userOf (
    request: FastifyRequest,
    given: Static<typeof UsageQuery> | Static<typeof UseBody>,
    part: '/query' | '/body',
    others: string
  ): Promise<LimitedUser> {
    const { userId, role: named, tier } = given
    const tenant = tenantOf(request)
    // Naming another role could raise a caller's own limit, so it needs a permission.
    if ((named !== undefined || tier !== undefined) && !await hasPermission(request, 'limits:write')) {
      throw failure('forbidden', { message: 'Only an administrator can send the role or the tier of a user' })
    }
    const own = limitedUser(request)
    if (own !== null && (userId === undefined || userId === own.id)) {
      return { ...own, ...named !== undefined && { role: named }, ...tier !== undefined && { tier } }
    }
    if (userId === undefined) throw invalidInput(`${part}/userId`, 'is required: you are not a user of the tenant', 'required')
    if (!await hasPermission(request, others)) {
      throw failure('forbidden', { message: `Only administrators and holders of ${others} can access the usage of other users` })
    }
    const known = await users()?.find(tenant, userId)
    const role = named ?? known?.role
    // The given id may have capital letters.
    return { tenant, id: known?.id ?? userId, role, tier, anyRole: role === undefined }
  }
}

function useOf ({ resource, metric, amount = 1 }: Static<typeof UseBody>) {
  return { resource, metric, amount }
}
