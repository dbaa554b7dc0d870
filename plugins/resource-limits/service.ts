/** `app.resourceLimits`: the limits of a tenant's users, and their usage. */
import type { FastifyInstance } from 'fastify'
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import { type Actor, noActor, writeAudit } from '../../lib/database/audit.js'
import { databaseBusy } from '../../lib/database/failures.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { type Precondition, requireMatch, tagOf } from '../../lib/http/caching.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { percentageOf, unlimited } from '../../lib/plans/plans.js'
import { listen } from '../../lib/plugin/lifecycle.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { isPlatformAdmin } from '../auth/access.js'
import type { Period } from './periods.js'
import { createRuleSet, isFor, type LimitedUser, limitOf, refuseContradictions, type Rule, type RuleSet } from './rules.js'
import { type Counting, createLimitStore, type RefusedCount } from './store.js'
import {
  type CheckResult, limitReached, noLimit, noSlots, resultOf, type Slots, strictest, type UsageEntry, usedAt, verdictsOf
} from './usage.js'

const maxWeight = 67_108_864 // bytes, approximately, of all cached rules
const bytesPerCharacter = 8 // in memory for each character of the JSON of the rules
const maxAttempts = 3 // of a refused count that finds room when it is read again: others gave amounts back

/** An amount of a resource or metric. */
export interface Use {
  readonly resource: string
  readonly metric: string
  /** A whole number from 1. */
  readonly amount: number
}

/** The taken amount. */
export interface Taken {
  /** Gives it back, once, if the work was not done. Never rejects; a failure is logged. */
  give(): Promise<void>
  /** Counts this amount, 0 or more, in place of the taken one. It is never refused. Only the first of both calls counts. Never rejects. */
  settle(amount: number): Promise<void>
}

/**
 * The type of `app.resourceLimits`. All rules for a user are checked; the one with the least left is reported. All methods
 * throw `validationFailed` for an amount that is not a whole number from 1, and for a sum past 2^53 - 1.
 */
export interface ResourceLimits {
  /**
   * Takes an amount before its use, in all periods or in none. Throws `resourceLimit` if a period has no room, for any
   * `gateAction`, and `conflict` if the tenant has too many counters. Synchronous if no rule applies to the user, or if the
   * user is null, which is no user of a tenant.
   */
  take(user: LimitedUser | null, use: Use): Taken | Promise<Taken>
  /** Whether there is room, without counting. */
  check(user: LimitedUser, use: Use): Promise<CheckResult>
  /**
   * Counts used amounts, under the request's idempotency key. Throws `resourceLimit`, and counts nothing, if that would exceed
   * a blocking limit.
   */
  track(user: LimitedUser, use: Use, claim?: IdempotencyClaim): Promise<CheckResult>
  /** For each rule that applies to the user, in the order of the rules. */
  usage(user: LimitedUser): Promise<UsageEntry[]>
  rules(tenant: string): Promise<readonly Rule[]>
  /**
   * Replaces all rules; every server applies them within a second. Default actor: the server itself. Throws `validationFailed`
   * if two rules contradict each other, `tenantUnknown`, and `preconditionFailed` if the current rules do not meet `match`.
   */
  replace(tenant: string, rules: readonly Rule[], actor?: Actor, match?: Precondition): Promise<readonly Rule[]>
}

/** The user whose limits apply to a request. null for strangers and the platform's administrators, who are not users of the tenant. */
export function limitedUser (
  { auth, tenant }: { readonly auth: Claims | null, readonly tenant: { readonly id: string } | null }
): LimitedUser | null {
  if (auth === null || tenant === null || isPlatformAdmin(auth)) return null
  const { sub, role, tier } = auth
  return { tenant: tenantRef(tenant.id), id: sub, role, tier: typeof tier === 'string' ? tier : undefined }
}

const nothing: Taken = Object.freeze({ give: async () => {}, settle: async () => {} })

/**
 * The service. The app closes after all amounts have been given back.
 *
 * @param maxCounters the highest number of usage counters of a tenant: one for each user, resource and metric
 * @param now the clock, in milliseconds since 1970
 */
export function createResourceLimits (app: FastifyInstance, maxCounters: number, now: () => number): ResourceLimits {
  const { engine, events, log, tenancy } = app
  const store = createLimitStore(engine, maxCounters)
  const giving = new Set<Promise<void>>()
  const known = createAsyncCache<{ readonly rules: RuleSet, readonly weight: number }, Owner>({
    max: tenancy.maxRemembered,
    weight: { max: maxWeight, of: ({ weight }) => weight },
    async load (tenant) {
      const rules = await store.rules(tenant)
      return { rules: createRuleSet(rules), weight: 500 + JSON.stringify(rules).length * bytesPerCharacter }
    }
  })
  // The deletion of a tenant is a change too.
  listen(app, events, { limits: known.invalidate, gap: known.clear })
  app.addHook('onClose', async () => {
    await Promise.all(giving)
  })

  async function rulesOf (tenant: Owner): Promise<RuleSet> {
    return (await known.get(tenant)).rules
  }

  /**
   * Counts up to the caps, and returns the new amounts; null if the tenant no longer exists. Throws `resourceLimit` if one of the
   * rules refuses the amount, or an error without room.
   */
  async function count (counting: Counting, rules: readonly Rule[], claim?: IdempotencyClaim): Promise<Slots | null> {
    const { user, resource, metric, amount, caps, at } = counting
    const fits = [...caps.values()].every((cap) => amount <= cap)
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const slots = fits ? await store.count(counting, claim) : null
      if (slots !== null) return slots
      const found = await store.read(user, resource, metric)
      if (found === null) return null
      const verdict = strictest(verdictsOf(rules, user, found.slots ?? noSlots, amount, at))
      if (verdict?.allowed === false) throw limitReached(verdict)
      const error = capacityError(found, counting)
      if (error !== null) throw error
    }
    throw databaseBusy()
  }

  /** Why nothing could be counted although no rule refuses it. */
  function capacityError ({ counters, slots }: RefusedCount, { amount, caps, at }: Counting): TenantryError | null {
    if (slots === null) return counters < maxCounters ? null : noRoom(maxCounters)
    return [...caps].some(([period]) => usedAt(slots[period], period, at) + amount > Number.MAX_SAFE_INTEGER)
      ? amountRefused('must not increase the usage beyond')
      : null
  }

  async function takeBy (rules: readonly Rule[], user: LimitedUser, { resource, metric, amount }: Use): Promise<Taken> {
    const counting = { user, resource, metric, amount, caps: capsOf(rules, user), at: now() }
    const counted = await count(counting, rules)
    return counted === null ? nothing : takenOf(counting, counted)
  }

  function takenOf (counting: Counting, counted: Slots): Taken {
    let given: Promise<void> | undefined
    function settle (used: number): Promise<void> {
      if (given !== undefined) return given
      if (used === counting.amount) return (given = Promise.resolve())
      const done = given = store.uncount({ ...counting, amount: counting.amount - used }, counted)
        .catch((err: unknown) =>
          log.warn({ err, tenant: counting.user.tenant }, 'an amount could not be returned to its limit: it counts as used')
        )
        .finally(() => giving.delete(done))
      giving.add(done)
      return done
    }
    return { give: () => settle(0), settle }
  }

  return {
    take (user, use) {
      if (user === null) return nothing
      const takeUnder = (rules: RuleSet): Taken | Promise<Taken> => {
        checkAmount(use.amount)
        const matching = rules.matching(use.resource, use.metric, user)
        return matching.length === 0 ? nothing : takeBy(matching, user, use)
      }
      return whenKnown(known.get(tenantRef(user.tenant)), ({ rules }) => takeUnder(rules))
    },

    async check (user, { resource, metric, amount }) {
      checkAmount(amount)
      const rules = (await rulesOf(tenantRef(user.tenant))).matching(resource, metric, user)
      if (rules.length === 0) return noLimit
      const found = await store.read(user, resource, metric)
      return resultOf(strictest(verdictsOf(rules, user, found?.slots ?? noSlots, amount, now())))
    },

    async track (user, { resource, metric, amount }, claim) {
      checkAmount(amount)
      const rules = (await rulesOf(tenantRef(user.tenant))).matching(resource, metric, user)
      if (rules.length === 0) return noLimit
      const at = now()
      const blocking = rules.filter(blocks)
      const caps = new Map([...rules.map(({ period }) => [period, Number.MAX_SAFE_INTEGER] as const), ...capsOf(blocking, user)])
      const counted = await count({ user, resource, metric, amount, caps, at }, blocking, claim)
      return counted === null ? noLimit : resultOf(strictest(verdictsOf(rules, user, counted, 0, at)))
    },

    async usage (user) {
      const rules = (await rulesOf(tenantRef(user.tenant))).all.filter((rule) => isFor(rule, user))
      if (rules.length === 0) return []
      const at = now()
      const used = new Map((await store.used(user)).map(({ resource, metric, slots }) => [`${resource} ${metric}`, slots]))
      return rules.map((rule) => {
        const { resource, metric, period } = rule
        const limit = limitOf(rule, user.tier)
        const current = usedAt((used.get(`${resource} ${metric}`) ?? noSlots)[period], period, at)
        return { resource, metric, period, current, limit, percentage: percentageOf(current, limit), scope: 'user' }
      })
    },

    rules: (tenant: Owner) => store.rules(tenant, engine.kyselyFor(tenant)),

    async replace (tenant: Owner, rules, actor = noActor, match) {
      refuseContradictions(rules)
      const at = new Date(now())
      await events.change({ topic: 'limits', tenant }, async (transaction) => {
        if (!await lockTenant(transaction, tenant, 'alone')) throw failure('tenantUnknown')
        if (match !== undefined) requireMatch(match, rulesTag(await store.rules(tenant, transaction)))
        await store.write(transaction, tenant, rules, at)
        await writeAudit(transaction, { tenant, action: 'limits.save', actor, details: { rules: rules.length }, at })
      })
      return rules
    }
  }
}

/** The entity tag of rules. It ignores the order of members: the database changes it. */
export function rulesTag (rules: readonly Rule[]): string {
  const members = new Set(
    rules.flatMap((
      { tiers = {}, conditions, ...rule }
    ) => [...Object.keys(rule), ...Object.keys(tiers), ...Object.keys(conditions ?? {}), 'tiers', 'conditions'])
  )
  return tagOf(JSON.stringify(rules, [...members].sort()))
}

function blocks ({ gateAction = 'block' }: Rule): boolean {
  return gateAction === 'block'
}

/** The maximum amount of each period under the rules. */
function capsOf (rules: readonly Rule[], { tier }: LimitedUser): Map<Period, number> {
  const caps = new Map<Period, number>()
  for (const rule of rules) {
    const limit = limitOf(rule, tier)
    const cap = limit === unlimited ? Number.MAX_SAFE_INTEGER : limit
    caps.set(rule.period, Math.min(cap, caps.get(rule.period) ?? cap))
  }
  return caps
}

/** Refused, not admitted: usage must never exceed a limit. */
function noRoom (maxCounters: number): TenantryError {
  return failure('conflict', {
    message:
      `The tenant has reached the maximum of ${maxCounters} usage counters: an administrator can save the limits (PUT /tenant/limits/resources) without the rules of a resource and metric, which deletes its counters; other counters are deleted one day after their last period`
  })
}

function checkAmount (amount: number): void {
  if (!Number.isSafeInteger(amount) || amount < 1) throw amountRefused('must be a whole number from 1 to')
}

function amountRefused (message: string): TenantryError {
  return invalidInput('/body/amount', `${message} ${Number.MAX_SAFE_INTEGER}`, 'maximum')
}
