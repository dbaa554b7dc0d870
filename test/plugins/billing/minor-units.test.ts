/** The amounts of currencies, in the minor units of both providers. */
import { test } from 'tap'
import { minorUnits } from '../../../plugins/billing/minor-units.js'
import { providerNames } from '../../../plugins/billing/providers/provider.js'
import { alone } from './worlds.js'

test('a price is converted to the minor units that the providers use', async (t) => {
  const cases: [price: number, currency: string, amount: number][] = [
    [29, 'USD', 2900],
    [29.99, 'EUR', 2999],
    [0, 'USD', 0],
    [29_900, 'HUF', 2_990_000],
    [150_000, 'IDR', 15_000_000],
    [99_000, 'COP', 9_900_000],
    [900, 'TWD', 90_000],
    [2900, 'JPY', 2900],
    [2900.4, 'JPY', 2900],
    [29_900, 'KRW', 29_900],
    [100_000, 'MGA', 100_000],
    [3900, 'ISK', 390_000],
    [3900.4, 'ISK', 390_000],
    [99_000, 'UGX', 9_900_000],
    [9.9, 'KWD', 9900],
    [5.124, 'KWD', 5120],
    [12.5, 'TND', 12_500]
  ]
  for (const [price, currency, amount] of cases) t.equal(minorUnits(price, currency), amount, `${price} ${currency}`)
})

for (const name of providerNames) {
  test(`${name}: a checkout and a change of one plan have the same amount`, async (t) => {
    const currency = 'HUF'
    const { world, as, sales } = await alone(t, name, {
      plans: { pro: { price: { monthly: 11_900, yearly: 119_000, currency } }, team: { price: { monthly: 29_900, currency } } },
      sell: (world) => ({
        pro_monthly: world.sell({ name: 'Pro', amount: 1_190_000, currency: 'huf', cycle: 'monthly' }),
        pro_yearly: world.sell({ name: 'Pro for a year', amount: 11_900_000, currency: 'huf', cycle: 'yearly' }),
        team_monthly: world.sell({ name: 'Team', amount: 2_990_000, currency: 'huf', cycle: 'monthly' })
      })
    })
    world.subscribe('first', sales.pro_monthly)
    const upgrade = async (tenant: string) => {
      const { body } = await as(tenant)('POST /billing/upgrade', { body: { targetPlan: 'team', billingCycle: 'monthly' } })
      const { checkoutUrl, session } = body
      return { isCheckout: checkoutUrl !== null, amount: Object(session).amount, currency: Object(session).currency }
    }
    t.same(await upgrade('second'), { isCheckout: true, amount: 2_990_000, currency: 'huf' })
    t.same(await upgrade('first'), { isCheckout: false, amount: 2_990_000, currency: 'huf' })
  })
}
