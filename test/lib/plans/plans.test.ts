import t from 'tap'
import { builtInPlans, createPlans, type Plan, planLimit } from '../../../lib/plans/plans.js'

const secretsOf = ({ limits }: Plan) => limits.tenantConfig.maxSecrets
const storageOf = ({ limits }: Plan) => limits.fileStorage.maxStorageMB

t.test('the built-in plans have the documented figures', async (t) => {
  const figures = builtInPlans.all.map(({ tier, price, limits: { websocket, fileStorage, api, ai, tenantConfig } }) => [
    tier,
    price.monthly,
    price.yearly,
    websocket.maxConnections,
    websocket.maxEntitiesWatched,
    websocket.maxRooms,
    fileStorage.maxStorageMB,
    fileStorage.maxFileSizeMB,
    api.requestsPerMinute,
    ai.llmTokensPerMonth,
    ai.maxCostPerMonth,
    tenantConfig.maxSecrets,
    tenantConfig.rotation,
    tenantConfig.auditRetentionDays
  ])
  t.strictSame(figures, [
    ['free', 0, 0, 10, 2, 5, 200, 5, 100, 100_000, 5, 5, false, 7],
    ['pro', 29, 290, 100, 50, 50, 5120, 50, 1000, 10_000_000, 100, 50, true, 90],
    ['team', 99, 990, 500, 250, 250, 25_600, 100, 3000, 50_000_000, 500, 200, true, 90],
    ['scale', 299, 2990, 2000, 1000, 1000, 102_400, 500, 6000, 75_000_000, 1000, 500, true, 90],
    ['enterprise', -1, -1, 10_000, -1, 5000, -1, 5000, 10_000, -1, -1, -1, true, -1]
  ])
  t.strictSame(builtInPlans.tiers, ['free', 'pro', 'team', 'scale', 'enterprise'])
  t.strictSame(builtInPlans.all.map(({ name, price }) => `${name} ${price.currency}`), [
    'Free USD',
    'Pro USD',
    'Team USD',
    'Scale USD',
    'Enterprise USD'
  ])
})

t.test('a document changes only the members that it names', async (t) => {
  const { of } = createPlans({
    pro: { name: 'Professional', price: { monthly: 39 }, limits: { fileStorage: { maxStorageMB: 1 }, tenantConfig: { rotation: false } } },
    team: {}
  })
  const pro = builtInPlans.of('pro')
  t.strictSame(of('pro'), {
    ...pro,
    name: 'Professional',
    price: { ...pro.price, monthly: 39 },
    limits: {
      ...pro.limits,
      fileStorage: { maxStorageMB: 1, maxFileSizeMB: 50 },
      tenantConfig: { ...pro.limits.tenantConfig, rotation: false }
    }
  })
  t.strictSame(of('team'), builtInPlans.of('team'))
  t.strictSame(createPlans().all, builtInPlans.all)
  t.equal(pro.price.monthly, 29, 'the built-in plans are not modified')
  t.strictSame(createPlans({ pro: { limits: { api: { requestsPerMinute: undefined } } } }).of('pro'), pro, 'undefined members are ignored')
})

t.test('an added tier inherits from free, and is ranked by its price', async (t) => {
  const plans = createPlans({
    gold: { price: { monthly: 50 }, limits: { tenantConfig: { maxSecrets: 0 } } },
    trial: {},
    custom: { price: { monthly: -1 } },
    free: { limits: { tenantConfig: { maxSecrets: 3 } } }
  })
  t.strictSame(plans.tiers, ['free', 'trial', 'pro', 'gold', 'team', 'scale', 'enterprise', 'custom'])
  const free = builtInPlans.of('free')
  t.strictSame(plans.of('gold'), {
    ...free,
    tier: 'gold',
    name: 'gold',
    description: '',
    price: { ...free.price, monthly: 50 },
    limits: { ...free.limits, tenantConfig: { ...free.limits.tenantConfig, maxSecrets: 0 } }
  })
  t.equal(secretsOf(plans.of('trial')), 5, 'the built-in free, not the changed one')
})

t.test("an unknown tier has free's limits", async (t) => {
  const plans = createPlans({ free: { limits: { tenantConfig: { maxSecrets: 3 } } } })
  for (const tier of ['gold', '', '__proto__', 'constructor', 'FREE', undefined]) t.equal(plans.of(tier), plans.of('free'), String(tier))
  t.equal(secretsOf(plans.of('gold')), 3)
})

t.test('an upgrade is the lowest higher plan with enough room, or null', async (t) => {
  const { upgrade } = builtInPlans
  t.strictSame(upgrade('free', secretsOf, 6), { plan: 'pro', limit: 50 })
  t.strictSame(upgrade('free', secretsOf, 50), { plan: 'pro', limit: 50 })
  t.strictSame(upgrade('free', secretsOf, 51), { plan: 'team', limit: 200 })
  t.strictSame(upgrade('free', secretsOf, 501), { plan: 'enterprise', limit: -1 })
  t.strictSame(upgrade('scale', storageOf, 2 ** 60), { plan: 'enterprise', limit: -1 })
  t.equal(upgrade('enterprise', secretsOf, 1), null)
  t.equal(upgrade('free', ({ limits }) => limits.websocket.maxConnections, 10_001), null)
  t.strictSame(upgrade('gold', secretsOf, 1), { plan: 'pro', limit: 50 }, 'an unknown tier counts as free')
  const odd = createPlans({ pro: { limits: { tenantConfig: { maxSecrets: 2 } } }, team: { price: { monthly: -1 } } })
  t.strictSame(odd.upgrade('free', secretsOf, 6), { plan: 'scale', limit: 500 }, 'a more expensive plan may include less')
})

t.test('plans are deeply frozen', async (t) => {
  const { all, tiers, of } = createPlans({ gold: {} })
  for (const value of [all, tiers, of('gold'), of('gold').price, of('gold').limits, of('gold').limits.ai, of('pro').limits.api]) {
    t.ok(Object.isFrozen(value))
  }
})

t.test('a rejection is a 402 with the upgrade', async (t) => {
  t.match(planLimit('The plan "free" includes 5 secrets', { plan: 'pro', limit: 50 }).toBody('r'), {
    error: 'Usage limit exceeded',
    code: 'TENANTRY_PLAN_LIMIT',
    allowed: false,
    upgrade: { plan: 'pro', limit: 50 }
  })
  t.match(planLimit('No more', null), { statusCode: 402, extras: { allowed: false, upgrade: null } })
})
