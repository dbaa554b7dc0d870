import { test } from 'tap'
import { TenantryError } from '../../../lib/errors.js'
import type { Rule } from '../../../plugins/resource-limits/index.js'
import { refuseContradictions } from '../../../plugins/resource-limits/rules.js'
import { rule } from './app.js'

const forRoles = (...roles: string[]) => rule({ conditions: { roles } })

/** Contradicting rules: `/body/2 /body/0`. */
function contradictions (rules: readonly Rule[]): string[] {
  try {
    refuseContradictions(rules)
  } catch (error) {
    if (!(error instanceof TenantryError)) throw error
    const { details } = error.extras
    if (!Array.isArray(details)) throw error
    return details.map(({ path, message }) => `${path} ${/rule at ([^\s,]+)/.exec(message)?.[1]}`)
  }
  return []
}

test('the fault of each rule names the first rule for the same users', async (t) => {
  for (
    const [rules, contradicted] of [
      [[forRoles('a'), forRoles('b'), rule({ period: 'week' }), rule({ metric: 'calls' }), rule({ resource: 'gpu' })], []],
      [[forRoles('a'), forRoles('b'), rule()], ['/body/2 /body/0']],
      [[forRoles('a'), rule({ period: 'week' }), rule(), rule(), forRoles('z')], ['/body/2 /body/0', '/body/3 /body/0', '/body/4 /body/2']],
      [[forRoles('a', 'b'), forRoles('c'), forRoles('c', 'b'), forRoles('c')], ['/body/2 /body/0', '/body/3 /body/1']],
      [[forRoles('a'), forRoles('__proto__', 'constructor'), forRoles('toString')], []]
    ] as const
  ) t.same(contradictions(rules), contradicted, JSON.stringify(rules))
  t.equal(contradictions(Array.from({ length: 200 }, () => rule())).length, 50, 'of many the first')
})

test('200 rules for one resource, with 20 roles each, are compared by reading each role once', async (t) => {
  let looks = 0
  const watched = (roles: string[]) =>
    new Proxy(roles, {
      get (target, member, receiver) {
        if (typeof member === 'string' && /^\d+$/.test(member)) looks++
        return Reflect.get(target, member, receiver)
      }
    })
  const rules = Array.from(
    { length: 200 },
    (_, index) => rule({ conditions: { roles: watched(Array.from({ length: 20 }, (_, role) => `r${index}_${role}`)) } })
  )
  t.same(contradictions(rules), [])
  t.equal(looks, 200 * 20)
})
