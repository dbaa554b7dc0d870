/** `/billing/plans`, `/billing/subscription`, its sync, and `/billing/upgrade`, with their schemas. */
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody, OrNull, Time } from '../../lib/http/schemas.js'
import { Plan, type Plans } from '../../lib/plans/plans.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { lazyValidator } from '../../lib/validation/validator.js'
import { isPlatformAdmin } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { errorResponses } from '../conventions/index.js'
import { checkLimit } from '../rate-limit/check-limit.js'
import { createLimit } from '../rate-limit/rules.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { Email } from '../users/user.js'
import { idempotencyKeyOf } from './idempotency.js'
import { cycles, providerNames, statuses } from './providers/provider.js'
import type { Billing } from './service.js'
import type { Upgrade } from './upgrade.js'

const PlanName = Type.String({ description: 'The tier of the plan.' })
const Status = Type.Enum([...statuses], {
  description:
    'The status of the subscription. `past_due`: a payment is missing, and the plan stays active for 7 days; `unpaid`: the provider no longer tries to collect the payment; `incomplete`: the first payment was never made.'
})

const Subscription = named(
  'PlatformSubscription',
  Type.Object({
    tenantId: Type.String(),
    subscription: Type.Object({
      plan: PlanName,
      status: Status,
      startDate: Time('The start of the subscription; for a tenant without a subscription, the creation of the tenant.'),
      renewalDate: Time('The time of the next payment. Without a subscription, the time at which the usage of the plan is reset.'),
      currentPeriodEnd: Time('The end of the paid period.'),
      cancelAtPeriodEnd: Type.Boolean({ description: 'The subscription ends at the end of the paid period.' }),
      paymentMethod: Type.String({
        description:
          'The kind of payment method, such as `card`; `none` without a subscription, `unknown` if the provider does not report it.'
      })
    })
  })
)

const Synced = named(
  'SyncedSubscription',
  Type.Object({ success: Type.Boolean(), subscription: Type.Object({ plan: PlanName, status: Status }) })
)

const Upgraded = named(
  'Upgrade',
  Type.Object({
    success: Type.Boolean(),
    checkoutUrl: OrNull(Type.String({ format: 'uri' }), 'The URL of the checkout page; null if an existing subscription was changed.'),
    session: Type.Object({
      id: Type.String({ description: 'The id of the checkout or of the subscription.' }),
      provider: Type.Enum([...providerNames]),
      plan: PlanName,
      billing_cycle: Type.Enum([...cycles]),
      amount: OrNull(
        Type.Integer(),
        'The amount in minor units of the currency. For a change: the price of the plan per billing cycle, without prorated charges or credits for the current cycle; null for a price by agreement.'
      ),
      currency: Type.String({ description: 'The currency in lower case, such as `usd`.' }),
      effectiveAt: Type.Optional(Time('The time at which a change of the plan takes effect.'))
    })
  })
)

/** The body, with an existing plan. */
function bodyOf (tiers: readonly string[]) {
  return ClosedObject({
    targetPlan: Type.Enum([...tiers], {
      description: 'A tier of `GET /billing/plans`; `free` cancels the subscription at the end of the paid period.'
    }),
    billingCycle: Type.Enum([...cycles])
  })
}

const tags = ['Billing']
const config = { access: 'tenant-admin', permission: 'billing:write' } as const
/** Limits a tenant's requests to the provider, which limits the platform's calls for all tenants together. */
const asked = createLimit(
  { max: 10, windowMs: 60_000, message: 'A tenant can send ten requests per minute to the payment provider: wait before the next one' },
  'billing provider'
)

const List = named(
  'Plans',
  Type.Object({ plans: Type.Array(Plan, { description: 'The plans from the lowest to the highest. An upgrade moves to a plan later in the list.' }) })
)

export function billingRoutes (app: FastifyGroup, billing: Billing, upgrade: Upgrade, plans: Plans): void {
  app.get('/billing/subscription', {
    config: { access: 'user', callerLimit: true },
    schema: {
      tags,
      summary: 'Retrieve the subscription of the tenant',
      response: { 200: Subscription, ...callerErrors() }
    }
  }, async (request) => {
    const tenantId = tenantOf(request)
    return { tenantId, subscription: await billing.subscription(tenantId) }
  })

  app.post('/billing/upgrade', {
    config: { ...config, callerLimit: true, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Change or cancel the plan',
      description:
        'Without a subscription, creates a checkout. With a subscription, a higher plan or a change from monthly to yearly billing takes effect immediately. A lower plan, a change from yearly to monthly billing and `free` take effect at the end of the paid period. Choosing the current plan cancels a pending cancellation or change.',
      body: bodyOf(plans.tiers),
      response: { 200: Upgraded, ...callerErrors(409, 502, 504) }
    }
  }, async (request, reply) => {
    await checkLimit(request, reply, asked)
    const { targetPlan: plan, billingCycle: cycle } = request.body
    const { id: tenant, life } = requiredTenant(request)
    const { idempotencyKey } = idempotencyKeyOf(request, tenant)
    const done = await upgrade({ tenant, life, plan, cycle, email: emailOf(request), idempotencyKey, actor: actorOf(request) })
    return { success: true, ...done }
  })

  app.post('/billing/subscription/sync', {
    config: { ...config, callerLimit: true },
    schema: {
      tags,
      summary: 'Synchronize the subscription with the payment provider',
      description: 'Use this after a missed webhook. Webhooks report every change otherwise.',
      body: EmptyBody,
      bodyOptional: true,
      response: { 200: Synced, ...callerErrors(502, 504) }
    }
  }, async (request, reply) => {
    await checkLimit(request, reply, asked)
    const { plan, status } = await billing.sync(tenantOf(request))
    return { success: true, subscription: { plan, status } }
  })

  const response = { plans: plans.all }

  app.get('/billing/plans', {
    config: { access: 'public' },
    schema: { tags, summary: 'List plans', security: [], response: { 200: List, ...errorResponses(429, 500) } }
  }, () => response)
}

const emailFaults = lazyValidator(Type.Object({ email: Email }), 'body')

/** The address of a user of the tenant. Administrators of the platform do not pay for a tenant. */
function emailOf ({ auth }: FastifyRequest): string | undefined {
  const email = auth?.email
  return auth === null || isPlatformAdmin(auth) || typeof email !== 'string' || (emailFaults({ email }) ?? []).length > 0
    ? undefined
    : email
}
