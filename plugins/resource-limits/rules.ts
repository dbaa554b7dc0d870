/** The limits that a tenant sets for its users. */
import { type Static, Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import { deepFreeze } from '../../lib/json/plain-value.js'
import type { ModelUser } from '../../lib/models/types.js'
import { unlimited } from '../../lib/plans/plans.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { limitedName } from '../../lib/schema/limits.js'
import { named } from '../../lib/validation/named-schema.js'
import { periods } from './periods.js'

export const maxRules = 200 // for a tenant
const maxTiers = 20 // in a rule
const maxRoles = 20 // in a rule
const maxDetails = 50 // in a refusal

/** The action at the limit. */
export const gateActions = ['block', 'upgrade', 'login'] as const

/** Limits a resource, or one of its metrics. */
export const Name = (description: string) =>
  Type.String({ pattern: limitedName, description: `${description} 1 to 64 of \`A-Z a-z 0-9 _ . : -\`.` })
const Limit = (description: string) => Type.Integer({ minimum: unlimited, maximum: Number.MAX_SAFE_INTEGER, description })

export const Rule = named(
  'ResourceLimit',
  ClosedObject({
    resource: Name('The limited resource, such as `workflow` or `llm`.'),
    metric: Name('The counted metric of the resource, such as `count` or `tokens`.'),
    period: Type.Enum([...periods], { description: 'The period of the limit in UTC. A `week` begins on Monday; `total` never ends.' }),
    limit: Limit('The maximum amount that a user can use in a period; -1 means unlimited.'),
    tiers: Type.Optional(
      Type.Record(Type.String({ pattern: limitedName }), Limit('The maximum amount for users of this tier.'), {
        additionalProperties: false,
        maxProperties: maxTiers,
        description: "Limits by the claim `tier` of the user's token. Users with another tier or without a tier have `limit`."
      })
    ),
    gateAction: Type.Optional(
      Type.Enum([...gateActions], {
        default: 'block',
        description: 'The action at the limit. `block` refuses the request; `upgrade` and `login` tell the application what to offer.'
      })
    ),
    conditions: Type.Optional(ClosedObject({
      roles: Type.Optional(
        Type.Array(Type.String({ pattern: limitedName }), {
          minItems: 1,
          maxItems: maxRoles,
          uniqueItems: true,
          description: 'The rule applies to users with one of these roles.'
        })
      )
    }, { description: 'The users to whom the rule applies. Default: all users.' }))
  })
)
export type Rule = Static<typeof Rule>

/** A tenant's user, as the rules need it. */
export interface LimitedUser extends ModelUser {
  readonly tenant: string
  /** The role is not known: the rules of all roles apply. Default: the user has `role`, or none. */
  readonly anyRole?: boolean
}

type RoleOfUser = Pick<LimitedUser, 'role' | 'anyRole'>

/** The rules of a tenant; deeply frozen, since requests share them. */
export interface RuleSet {
  readonly all: readonly Rule[]
  /** The rules that apply to the user: at most one for each period, if the role is known. */
  matching(resource: string, metric: string, user: RoleOfUser): readonly Rule[]
}

const none: readonly Rule[] = Object.freeze([])

export function createRuleSet (rules: readonly Rule[]): RuleSet {
  const all = deepFreeze([...rules])
  const byUse = new Map<string, Rule[]>()
  for (const rule of all) {
    const key = keyOf(rule.resource, rule.metric)
    const known = byUse.get(key)
    if (known === undefined) byUse.set(key, [rule])
    else known.push(rule)
  }
  return {
    all,
    matching (resource, metric, user) {
      const found = byUse.get(keyOf(resource, metric))
      if (found === undefined) return none
      return found.every((rule) => isFor(rule, user)) ? found : found.filter((rule) => isFor(rule, user))
    }
  }
}

/** Names contain no blanks. */
function keyOf (resource: string, metric: string): string {
  return `${resource} ${metric}`
}

export function isFor ({ conditions }: Rule, { role, anyRole = false }: RoleOfUser): boolean {
  return conditions?.roles === undefined || anyRole || (role !== undefined && conditions.roles.includes(role))
}

/** The limit of a user of the tier; `unlimited` without one. */
export function limitOf ({ limit, tiers }: Rule, tier: string | undefined): number {
  return tier !== undefined && tiers !== undefined && Object.hasOwn(tiers, tier) ? tiers[tier] ?? limit : limit
}

/** Indexes of the first rule of a resource, metric and period: of any rule, of one for all users, and of one for each role. */
interface FirstRules {
  readonly any: number
  everyUser?: number
  readonly byRole: Map<string, number>
}

/** Throws `validationFailed` if two rules apply to the same user in the same period. The time is linear in the roles of all rules. */
export function refuseContradictions (rules: readonly Rule[]): void {
  const firstRules = new Map<string, FirstRules>()
  const details = []
  for (const [index, rule] of rules.entries()) {
    const first = firstFor(firstRules, rule, index)
    if (first !== index) {
      details.push({
        path: `/body/${index}`,
        message: `must not apply to the same users as the rule at /body/${first}, which has the same resource, metric and period`,
        keyword: 'contradiction'
      })
    }
  }
  if (details.length > 0) throw failure('validationFailed', { extras: { details: details.slice(0, maxDetails) } })
}

/** The first earlier rule for the same users; this one is recorded. */
function firstFor (firstRules: Map<string, FirstRules>, { resource, metric, period, conditions }: Rule, index: number): number {
  const key = `${keyOf(resource, metric)} ${period}`
  const known = firstRules.get(key) ?? { any: index, byRole: new Map<string, number>() }
  firstRules.set(key, known)
  if (conditions?.roles === undefined) {
    known.everyUser ??= index
    return known.any
  }
  let first = Math.min(known.everyUser ?? index, index)
  for (const role of conditions.roles) {
    const before = known.byRole.get(role)
    if (before === undefined) known.byRole.set(role, index)
    else if (before < first) first = before
  }
  return first
}
