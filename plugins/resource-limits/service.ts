/** `app.resourceLimits`: the limits of users of a tenant, and their usage. */
import { tenantRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Claims } from '../../lib/expressions/types.js'
import type { Engine } from '../../lib/database/engine.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { noActor, writeAudit, type Actor } from '../../lib/database/audit.js'
import { databaseBusy } from '../../lib/database/failures.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { requireMatch, tagOf, type Precondition } from '../../lib/http/entity-tags.js'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import { percentageOf } from '../../lib/plans/percentage.js'
import { unlimited } from '../../lib/plans/plans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { isPlatformAdmin } from '../auth/access.js'
import { createRuleSet, isFor, limitOf, refuseContradictions, type LimitedUser, type Rule, type RuleSet } from './rules.js'
import { createLimitStore, type Counting, type Found } from './store.js'
import { limitReached, noLimit, noSlots, resultOf, strictest, usedAt, verdictsOf, type CheckResult, type Slots } from './usage.js'

const maxWeight = 67_108_864 // bytes, about, of all rules that are remembered
const bytesPerCharacter = 8 // of rules in memory, for each character of their JSON
const maxAttempts = 3 // at a count that is refused, and then finds room: others gave back

/** How much of what. */
export interface Use {
  readonly resource: string
  readonly metric: string
  /** A whole number from 1. */
  readonly amount: number
}

/** What was taken. */
export interface Taken {
  /** Gives it back, once: what was not done is not used. Never rejects; a failure is logged. */
  give(): Promise<void>
  /** Counts this amount, 0 or more, in place of what was taken. It is never refused. The first of both calls holds. Never rejects. */
  settle(amount: number): Promise<void>
}

/** The usage of one resource by one user. */
export interface UsageEntry {
  readonly resource: string
  readonly metric: string
  readonly period: Rule['period']
  readonly current: number
  /** -1 is unlimited. */
  readonly limit: number
  /** Of the limit; 0 where there is none. */
  readonly percentage: number
  readonly scope: 'user'
}

/**
 * The type of `app.resourceLimits`. All rules for a user are checked, and the one with the least left is reported. All methods
 * throw `validationFailed` for an amount that is no whole number from 1, and where a sum would be past 2^53 - 1.
 */
export interface ResourceLimits {
  /**
   * Takes what is about to be used, in all periods or in none; throws `resourceLimit` where one has no room, whatever its
   * `gateAction`, and `conflict` where the tenant counts for too many users. At once where no rule is for the user, and
   * for null, who is no user of a tenant.
   */
  take(user: LimitedUser | null, use: Use): Taken | Promise<Taken>
  /** Whether there is room; counts nothing. */
  check(user: LimitedUser, use: Use): Promise<CheckResult>
  /**
   * Counts what was used, under the idempotency key of the request; throws `resourceLimit` where it would go past a limit that
   * blocks, and counts nothing then.
   */
  track(user: LimitedUser, use: Use, claim?: IdempotencyClaim): Promise<CheckResult>
  /** Of each rule that is for the user, in the order of the rules. */
  usage(user: LimitedUser): Promise<UsageEntry[]>
  /** Whether rules depend on the role of a user: those of the resource and metric, or all without them. */
  needsRole(tenant: string, of?: Pick<Use, 'resource' | 'metric'>): Promise<boolean>
  rules(tenant: string): Promise<readonly Rule[]>
  /**
   * Replaces all rules; holds on every server within a second. Default actor: the server itself. Throws `validationFailed` where
   * two contradict each other, `tenantUnknown`, and `preconditionFailed` where the rules in force do not meet `match`.
   */
  replace(tenant: string, rules: readonly Rule[], actor?: Actor, match?: Precondition): Promise<readonly Rule[]>
}

export interface ResourceLimitsParts {
  readonly engine: Engine
  /** Tenants whose rules are remembered at most. */
  readonly maxTenants: number
  /** Users, each with a resource and a metric, of whom a tenant's usage is counted at most. */
  readonly maxCounters: number
  readonly log: FastifyBaseLogger
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

/** The user whose limits a request draws on; null where it is none of the tenant's: a stranger, or the platform's administrator. */
export function limitedUser (
  { auth, tenant }: { readonly auth: Claims | null, readonly tenant: { readonly id: string } | null }
): LimitedUser | null {
  if (auth === null || tenant === null || isPlatformAdmin(auth)) return null
  const { sub, role, tier } = auth
  return { tenant: tenantRef(tenant.id), id: sub, role, tier: typeof tier === 'string' ? tier : undefined }
}

const nothing: Taken = Object.freeze({ give: async () => {}, settle: async () => {} })

/** The service, and what its plugin does at the end: it waits for what is given back and hears of no change any more. */
export function createResourceLimits (
  { engine, maxTenants, maxCounters, log, now }: ResourceLimitsParts
): ResourceLimits & { close(): Promise<void> } {
  const { events } = engine
  const store = createLimitStore(engine, maxCounters)
  const giving = new Set<Promise<void>>()
  const known = createAsyncCache<{ readonly rules: RuleSet, readonly weight: number }, Owner>({
    max: maxTenants,
    weight: { max: maxWeight, of: ({ weight }) => weight },
    async load (tenant) {
      const rules = await store.rules(tenant)
      return { rules: createRuleSet(rules), weight: 500 + JSON.stringify(rules).length * bytesPerCharacter }
    }
  })
  const ends = [
    // Also at the deletion of a tenant.
    events.on('limits', (tenant) => known.invalidate(tenant)),
    events.onGap(() => known.clear())
  ]

  async function rulesOf (tenant: Owner): Promise<RuleSet> {
    return (await known.get(tenant)).rules
  }

  /**
   * Counts as much as the caps admit, and returns what it came to; null where the tenant is gone. Throws as `refusal` says, or
   * where there is no room.
   */
  async function count (
    counting: Counting,
    refusal: (slots: Slots) => TenantryError | null,
    claim?: IdempotencyClaim
  ): Promise<Slots | null> {
    const { user, resource, metric, amount, caps } = counting
    const fits = [...caps.values()].every((cap) => amount <= cap)
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const slots = fits ? await store.count(counting, claim) : null
      if (slots !== null) return slots
      const found = await store.look(user, resource, metric)
      if (found === null) return null
      const error = refusal(found.slots ?? noSlots) ?? roomless(found, counting)
      if (error !== null) throw error
    }
    throw databaseBusy()
  }

  /** Why nothing could be counted although no rule refuses it. */
  function roomless ({ counters, slots }: Found, { amount, caps, at }: Counting): TenantryError | null {
    if (slots === null) return counters < maxCounters ? null : noRoom(maxCounters)
    return [...caps].some(([period]) => usedAt(slots[period], period, at) + amount > Number.MAX_SAFE_INTEGER)
      ? amountRefused('must not bring what was used past')
      : null
  }

  async function takeBy (rules: readonly Rule[], user: LimitedUser, { resource, metric, amount }: Use): Promise<Taken> {
    const at = now()
    const counting: Counting = {
      user,
      resource,
      metric,
      amount,
      at,
      caps: new Map(rules.map((rule) => [rule.period, capOf(limitOf(rule, user.tier))]))
    }
    const counted = await count(counting, (slots) => {
      const verdict = strictest(verdictsOf(rules, user, slots, amount, at))
      return verdict === undefined || verdict.allowed ? null : limitReached(verdict)
    })
    return counted === null ? nothing : takenOf(counting, counted)
  }

  function takenOf (counting: Counting, counted: Slots): Taken {
    let given: Promise<void> | undefined
    function settle (used: number): Promise<void> {
      if (given !== undefined) return given
      if (used === counting.amount) return (given = Promise.resolve())
      const done = given = store.uncount({ ...counting, amount: counting.amount - used }, counted)
        .catch((err: unknown) =>
          log.warn({ err, tenant: counting.user.tenant }, 'what was taken of a limit could not be given back: it counts as used')
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
        refuseAmount(use.amount)
        const matching = rules.matching(use.resource, use.metric, user.role)
        return matching.length === 0 ? nothing : takeBy(matching, user, use)
      }
      const found = known.get(tenantRef(user.tenant))
      return whenKnown(found, ({ rules }) => takeUnder(rules))
    },

    async check (user, { resource, metric, amount }) {
      refuseAmount(amount)
      const rules = (await rulesOf(tenantRef(user.tenant))).matching(resource, metric, user.role)
      if (rules.length === 0) return noLimit
      const found = await store.look(user, resource, metric)
      return resultOf(strictest(verdictsOf(rules, user, found?.slots ?? noSlots, amount, now())))
    },

    async track (user, { resource, metric, amount }, claim) {
      refuseAmount(amount)
      const rules = (await rulesOf(tenantRef(user.tenant))).matching(resource, metric, user.role)
      if (rules.length === 0) return noLimit
      const at = now()
      const caps = new Map(rules.map((rule) => [rule.period, blocks(rule) ? capOf(limitOf(rule, user.tier)) : Number.MAX_SAFE_INTEGER]))
      const counted = await count({ user, resource, metric, amount, caps, at }, (slots) => {
        const verdict = strictest(verdictsOf(rules.filter(blocks), user, slots, amount, at))
        return verdict === undefined || verdict.allowed ? null : limitReached(verdict)
      }, claim)
      return counted === null ? noLimit : resultOf(strictest(verdictsOf(rules, user, counted, 0, at)))
    },

    async usage (user) {
      const rules = (await rulesOf(tenantRef(user.tenant))).all.filter((rule) => isFor(rule, user.role))
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

    async needsRole (tenant: Owner, of) {
      const { all } = await rulesOf(tenant)
      return all.some(({ conditions, resource, metric }) =>
        conditions?.roles !== undefined && (of === undefined || (of.resource === resource && of.metric === metric))
      )
    },

    rules: (tenant: Owner) => store.rules(tenant, engine.kyselyFor(tenant)),

    async replace (tenant: Owner, rules, actor = noActor, match) {
      refuseContradictions(rules)
      const at = new Date(now())
      await events.change({ topic: 'limits', tenant }, async (transaction) => {
        if (!await store.lock(transaction, tenant)) throw failure('tenantUnknown')
        if (match !== undefined) requireMatch(match, rulesTag(await store.rules(tenant, transaction)))
        await store.write(transaction, tenant, rules, at)
        await writeAudit(transaction, { tenant, action: 'limits.save', actor, details: { rules: rules.length }, at })
      })
      return rules
    },

    async close () {
      for (const end of ends) end()
      await Promise.all(giving)
    }
  }
}

/** The entity tag of rules, whatever the order of their members: the database keeps another one than a caller sends. */
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

/** What a period may come to under a limit. */
function capOf (limit: number): number {
  return limit === unlimited ? Number.MAX_SAFE_INTEGER : limit
}

/** Refused rather than let by, since more than a limit admits is never used. */
function noRoom (maxCounters: number): TenantryError {
  return failure('conflict', {
    message:
      `The tenant has ${maxCounters} counts of users and what is limited, which is the most there may be: an administrator saves the limits (PUT /tenant/limits/resources) without the rules of a resource and metric, which forgets what was counted of these; other counts end a day after their last period`
  })
}

function refuseAmount (amount: number): void {
  if (!Number.isSafeInteger(amount) || amount < 1) throw amountRefused('must be a whole number from 1 to')
}

function amountRefused (message: string): TenantryError {
  return invalidInput('/body/amount', `${message} ${Number.MAX_SAFE_INTEGER}`, 'maximum')
}
