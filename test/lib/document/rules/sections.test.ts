/** The section `plans`: its members, and the messages of its faults. */
import t from 'tap'
import { builtInPlans, createPlans } from '../../../../lib/plans/plans.js'
import { check, faultsOf } from '../../configuration/documents.js'

const limits = (members: Record<string, unknown>) => faultsOf({ plans: { pro: { limits: members } } })

t.test('plans can be changed and added', async (t) => {
  t.strictSame(check({}).plans, {})
  t.strictSame(createPlans(check({ plans: {} }).plans).all, builtInPlans.all, 'an empty section changes nothing')
  const plans = {
    pro: { price: { monthly: 29.5 }, limits: { api: { requestsPerMinute: 1 }, ai: { maxCostPerMonth: 0.25, llmTokensPerMonth: -1 } } },
    'gold_2-x': {},
    7: { name: 'Seven' }
  }
  t.strictSame(check({ plans }).plans, plans)
  t.strictSame(
    check({ plans: { pro: { price: { monthly: '{{env.PRICE}}' }, limits: { api: { requestsPerMinute: '{{env.RPM}}' } } } } }, {
      PRICE: '9.99',
      RPM: '-1'
    }).plans,
    { pro: { price: { monthly: 9.99 }, limits: { api: { requestsPerMinute: -1 } } } }
  )
})

t.test('a limit is a whole number, or -1', async (t) => {
  const at = '/plans/pro/limits'
  t.strictSame(limits({ websocket: { maxConnections: -2 } }), [
    `${at}/websocket/maxConnections: expected -1 (unlimited), or 0 to 1000000000`
  ])
  t.strictSame(limits({ websocket: { maxConnections: 1.5 } }), [`${at}/websocket/maxConnections: expected -1 or an integer, got a number`])
  t.strictSame(limits({ websocket: { maxRooms: 1_000_000_001 } }), [
    `${at}/websocket/maxRooms: expected -1 (unlimited), or 0 to 1000000000`
  ])
  t.strictSame(limits({ fileStorage: { maxStorageMB: Number.MAX_SAFE_INTEGER } }), [
    `${at}/fileStorage/maxStorageMB: expected -1 (unlimited), or 0 to 1000000000`
  ])
  t.strictSame(limits({ websocket: { maxRooms: 1e300 } }), [`${at}/websocket/maxRooms: expected -1 (unlimited), or 0 to 1000000000`])
  t.strictSame(limits({ websocket: { maxRooms: NaN } }), [`${at}/websocket/maxRooms: NaN is not a valid JSON number`])
  t.strictSame(limits({ websocket: { maxRooms: Infinity } }), [`${at}/websocket/maxRooms: Infinity is not a valid JSON number`])
  t.strictSame(limits({ websocket: { maxRooms: '10' } }), [`${at}/websocket/maxRooms: expected -1 or an integer, got a string`])
  t.strictSame(limits({ websocket: { maxRooms: null } }), [`${at}/websocket/maxRooms: expected -1 or an integer, got null`])
  t.strictSame(
    limits({ api: { requestsPerMinute: 0 } }),
    [`${at}/api/requestsPerMinute: expected -1 (unlimited), or 1 to 1000000000`],
    'a limit of zero requests'
  )
  t.strictSame(
    limits({ tenantConfig: { maxSecrets: 10_001 } }),
    [`${at}/tenantConfig/maxSecrets: expected -1 (unlimited), or 0 to 10000`],
    'above the maximum of any tenant'
  )
  t.strictSame(limits({ tenantConfig: { auditRetentionDays: 36_501, rotation: 1 } }), [
    `${at}/tenantConfig/auditRetentionDays: expected -1 (unlimited), or 0 to 36500`,
    `${at}/tenantConfig/rotation: expected true or false, got an integer`
  ])
  t.strictSame(limits({ ai: { maxCostPerMonth: -0.5, llmTokensPerMonth: 1e13 } }), [
    `${at}/ai/maxCostPerMonth: expected -1 (unlimited), or 0 to 1000000000`,
    `${at}/ai/llmTokensPerMonth: expected -1 (unlimited), or 0 to 1000000000000`
  ])
})

t.test('names, prices and members are validated', async (t) => {
  t.strictSame(faultsOf({ plans: { pro: { name: '', description: 'd'.repeat(1001) } } }), [
    '/plans/pro/name: expected a string that is not empty',
    '/plans/pro/description: expected at most 1000 characters'
  ])
  t.strictSame(faultsOf({ plans: { pro: { price: { monthly: -0.01, yearly: 1e12, currency: 'usd' } } } }), [
    '/plans/pro/price/monthly: expected -1 (by agreement), or 0 to 1000000000',
    '/plans/pro/price/yearly: expected -1 (by agreement), or 0 to 1000000000',
    '/plans/pro/price/currency: expected a currency of ISO 4217 such as `USD`'
  ])
  t.strictSame(faultsOf({ plans: { pro: { limit: {}, limits: { api: { requestPerMinute: 5 }, sockets: {} } } } }), [
    '/plans/pro/limit: unknown member, did you mean "limits"?',
    '/plans/pro/limits/api/requestPerMinute: unknown member, did you mean "requestsPerMinute"?',
    '/plans/pro/limits/sockets: unknown member: expected one of "websocket", "fileStorage", "api", "ai", "tenantConfig"'
  ])
  for (const plans of [[], null, 'pro', 5]) t.match(faultsOf({ plans }), [/^\/plans: expected an object, got /])
  for (const pro of [[], null, false]) t.match(faultsOf({ plans: { pro } }), [/^\/plans\/pro: expected an object, got /])
})

t.test('names of tiers have 1 to 64 characters of `A-Z a-z 0-9 _ -`', async (t) => {
  const name = 'expected 1 to 64 characters of `A-Z a-z 0-9 _ -` as the name'
  t.strictSame(faultsOf({ plans: { '': {}, 'a b': {}, 'a/b': {}, é: {}, ['x'.repeat(65)]: {} } }), [
    `/plans/: ${name}`,
    `/plans/a b: ${name}`,
    `/plans/a~1b: ${name}`,
    `/plans/é: ${name}`,
    `/plans/${'x'.repeat(65)}: ${name}`
  ])
  t.strictSame(faultsOf({
    plans: JSON.parse('{"__proto__": {"name": "x"}}')
  }), ['/plans/__proto__: "__proto__" is not allowed as the name of a member'])
  t.strictSame(createPlans(check({ plans: { constructor: { name: 'C' }, toString: {} } }).plans).tiers.slice(1, 3), [
    'constructor',
    'toString'
  ])
  t.strictSame(faultsOf({ plans: { Pro: {}, gold: {}, GOLD: {} } }), [
    '/plans/Pro: differs from another tier only in upper and lower case, did you mean "pro"?',
    '/plans/GOLD: differs from another tier only in upper and lower case, did you mean "gold"?'
  ])
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`tier-${index}`, {}]))
  t.strictSame(faultsOf({ plans: many(25) }), [])
  t.strictSame(faultsOf({ plans: { ...many(26), pro: {} } }), [
    '/plans: there are 31 tiers including the built-in ones: expected at most 30'
  ])
})

t.test("the largest allowed file must fit into its plan's storage", async (t) => {
  const files = (tier: string, fileStorage: Record<string, number>) => faultsOf({ plans: { [tier]: { limits: { fileStorage } } } })
  t.strictSame(files('pro', { maxFileSizeMB: 6000 }), [
    "/plans/pro/limits/fileStorage/maxFileSizeMB: expected at most the plan's `maxStorageMB`, 5120: a larger file would never fit"
  ])
  t.strictSame(files('gold', { maxStorageMB: 10, maxFileSizeMB: 11 }), [
    "/plans/gold/limits/fileStorage/maxFileSizeMB: expected at most the plan's `maxStorageMB`, 10: a larger file would never fit"
  ])
  t.strictSame(files('pro', { maxStorageMB: 1 }), [], 'storage below the inherited maximum file size')
  t.strictSame(files('pro', { maxFileSizeMB: -1 }), [], 'unlimited')
  t.strictSame(files('enterprise', { maxFileSizeMB: 1_000_000 }), [])
})
