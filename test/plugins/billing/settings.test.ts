/** The settings of the payment providers: all faults at once, each with its name, and without secrets. */
import t from 'tap'
import { checkConfig, formatFault } from '../../../lib/configuration/index.js'
import { checkBilling } from '../../../lib/document/rules/billing.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { BillingSettings, ProviderAccount } from '../../../plugins/billing/index.js'
import { createProductMap } from '../../../plugins/billing/settings.js'
import { faultsOn } from '../../lib/configuration/documents.js'

type Env = Record<string, string>

/** An id in Polar's form. */
const id = (number: number) => `00000000-0000-4000-8000-00000000000${number}`
const map = `{"pro_monthly":"${id(1)}"}`
const chosen: Env = {
  PAYMENT_PROVIDER: 'payprov',
  PAYPROV_API_KEY: 'polar_oat_secret_of_a_test',
  PAYPROV_PRODUCT_MAP: map,
  APP_URL: 'https://app.example.com'
}

function faults (env: Env, members: object = {}): string[] {
  return faultsOn(() => checkConfig({ routes: [], ...members }, { env }))
}

t.test("a provider's settings become part of the configuration", async (t) => {
  t.equal(
    checkConfig({ routes: [] }, { env: { APP_URL: 'not looked at', PAYPROV_API_KEY: ' ' } }).billing,
    undefined,
    'without a provider there are none'
  )
  t.match(
    checkConfig({ routes: [] }, {
      env: {
        ...chosen,
        PAYPROV_ORGANIZATION_ID: 'org',
        PAYPROV_WEBHOOK_SECRET: 'whsec_bmV3',
        PAYPROV_PREVIOUS_WEBHOOK_SECRETS: ' one, two ,',
        PAYPROV_BASE_URL: 'http://127.0.0.1:4010',
        ALTPROV_WEBHOOK_SECRET: 'whsec_old'
      }
    }).billing,
    {
      provider: 'payprov',
      appUrl: 'https://app.example.com',
      payprov: {
        apiKey: chosen['PAYPROV_API_KEY'],
        organizationId: 'org',
        webhookSecret: 'whsec_bmV3',
        previousWebhookSecrets: ['one', 'two'],
        productMap: { pro_monthly: id(1) },
        baseUrl: 'http://127.0.0.1:4010'
      },
      altprov: { webhookSecret: 'whsec_old', apiKey: undefined }
    }
  )
  t.equal(
    checkConfig({ routes: [], plugins: { billing: false } }, { env: { PAYMENT_PROVIDER: 'wrong' } }).billing,
    undefined,
    'a disabled group needs no settings'
  )
  t.strictSame(
    faults({ ...chosen, PAYPROV_PRODUCT_MAP: `{"school_yearly":"${id(1)}"}` }, { plans: { school: {} } }),
    [],
    "from the document's plans"
  )
})

t.test('every fault is reported, with the name of its setting and its place in the document', async (t) => {
  t.strictSame(faults({ PAYMENT_PROVIDER: 'payprv' }), [
    'PAYMENT_PROVIDER: expected payprov (Polar) or altprov (Stripe), did you mean "payprov"?'
  ])
  t.strictSame(faults({ PAYMENT_PROVIDER: 'stripe' }), ['PAYMENT_PROVIDER: expected payprov (Polar) or altprov (Stripe)'])
  t.match(faults({ PAYMENT_PROVIDER: 'altprov' }, { pagination: { maxLimit: 0 } }), [
    /^\/pagination\/maxLimit: /,
    /^APP_URL: missing: /,
    /^ALTPROV_API_KEY: missing: /,
    /^ALTPROV_PRODUCT_MAP: missing: /
  ])
  t.match(
    faults({
      ...chosen,
      PAYPROV_API_KEY: 'two words',
      APP_URL: 'https://user:password@example.com',
      PAYPROV_BASE_URL: 'ftp://example.com',
      PAYPROV_WEBHOOK_SECRET: 'two\nlines',
      ALTPROV_PREVIOUS_WEBHOOK_SECRETS: 'old'
    }),
    [
      /^APP_URL: expected an absolute URL/,
      /^PAYPROV_API_KEY: expected 1 to 1024 visible/,
      /^PAYPROV_WEBHOOK_SECRET: expected/,
      /^PAYPROV_BASE_URL: expected an absolute/,
      /^ALTPROV_WEBHOOK_SECRET: missing/
    ]
  )
  for (
    const url of [
      'app.example.com',
      '/app',
      '//example.com',
      'javascript:alert(1)',
      'https://a.example/?x=1',
      'https://a.example/#x',
      `https://a.example/${'x'.repeat(1024)}`
    ]
  ) {
    t.match(faults({ ...chosen, APP_URL: url }), [/^APP_URL: expected an absolute URL/], url.slice(0, 40))
  }
  for (const path of ['', '/', '/v1', '/v1/']) {
    t.strictSame(faults({ ALTPROV_WEBHOOK_SECRET: 'whsec_old', ALTPROV_BASE_URL: `http://127.0.0.1:4010${path}` }), [], path)
  }
  t.match(faults({ ALTPROV_WEBHOOK_SECRET: 'whsec_old', ALTPROV_BASE_URL: 'http://127.0.0.1:4010/stripe' }), [
    /^ALTPROV_BASE_URL: expected a URL without a path/
  ])
  t.match(faults({ PAYPROV_BASE_URL: 'polar.sh', PAYMENT_PROVIDER: 'wrong' }, { plugins: { billing: false } }), [
    /^PAYPROV_BASE_URL: expected an absolute URL/
  ], "tenants' own accounts use that address")
  t.strictSame(faults({ PAYPROV_BASE_URL: 'polar.sh' }, { plugins: { billing: false, 'tenant-billing': false } }), [])
})

t.test('a product map has keys of plans and cycles, with an id for each', async (t) => {
  const fault = (text: string, more: Env = {}) => faults({ ...chosen, ...more, PAYPROV_PRODUCT_MAP: text })
  t.strictSame(fault(`{"pro_montly":"${id(1)}","team_yearly":"${id(2)}"}`), [
    'PAYPROV_PRODUCT_MAP: "pro_montly" cannot be sold: expected `<tier>_<cycle>` of a plan, with the cycle monthly or yearly, did you mean "pro_monthly"?'
  ])
  t.notMatch(fault(`{"gold_monthly":"${id(1)}"}`), [/free_/], 'the plan "free" cannot be bought')
  for (
    const key of [
      'gold_monthly',
      'pro',
      'pro_',
      '_monthly',
      'pro_weekly',
      'PRO_monthly',
      'pro-monthly',
      '__proto__',
      'constructor',
      'monthly'
    ]
  ) t.match(fault(JSON.stringify({ x: 1 }).replace('"x":1', `"${key}":"${id(1)}"`)), [/cannot be sold/], key)
  for (const wrong of ['', ' ', 'two words', 'ü', '../x', 'x/y', 'x'.repeat(256)]) {
    t.match(fault(JSON.stringify({ pro_monthly: wrong })), [/^PAYPROV_PRODUCT_MAP: "pro_monthly": expected the provider's id/], wrong)
  }
  for (const wrong of [1, null, true, {}, ['a']]) {
    t.match(
      fault(JSON.stringify({ pro_monthly: wrong })),
      [/^PAYPROV_PRODUCT_MAP: "pro_monthly": expected the provider's id as a string/],
      JSON.stringify(wrong)
    )
  }
  for (const text of ['[]', '"a"', '1', 'null']) t.match(fault(text), [/^PAYPROV_PRODUCT_MAP: expected a JSON object/], text)
  t.match(fault('{"pro_monthly":"a"'), [/^PAYPROV_PRODUCT_MAP:1:19: expected a closing brace/])
  t.match(fault('{"pro_monthly":"a","pro_monthly":"b"}'), [/^PAYPROV_PRODUCT_MAP:1:20: the member "pro_monthly" is duplicated/])
  t.match(fault(`{"pro_monthly":"${id(1)}","pro_yearly":"${id(1)}"}`), [
    /"pro_yearly" has the same id as "pro_monthly" of PAYPROV_PRODUCT_MAP/
  ])
  t.match(fault(map, { ALTPROV_PRODUCT_MAP: `{"team_monthly":"${id(1)}"}` }), [
    /^ALTPROV_PRODUCT_MAP: "team_monthly" has the same id as "pro_monthly" of PAYPROV_PRODUCT_MAP/
  ], 'nor at the other provider')
})

t.test('no fault shows the value of a setting', async (t) => {
  const text = 'sk_live_0123456789'
  for (
    const name of [
      'PAYMENT_PROVIDER',
      'PAYPROV_API_KEY',
      'PAYPROV_PRODUCT_MAP',
      'PAYPROV_BASE_URL',
      'APP_URL',
      'PAYPROV_WEBHOOK_SECRET',
      'PAYPROV_PREVIOUS_WEBHOOK_SECRETS',
      'PAYPROV_ORGANIZATION_ID'
    ]
  ) {
    for (const value of [text, `${text} é`, `{"pro_monthly":"${text} "}`, `"${text}`]) {
      t.notMatch(faults({ ...chosen, [name]: value }).join('\n'), text, `${name}=${value}`)
    }
  }
})

t.test('the product map converts plans to ids, and ids to plans', async (t) => {
  const settings: BillingSettings = {
    payprov: { productMap: { team_monthly: 'c', pro_yearly: 'b', pro_monthly: 'a' } },
    altprov: { productMap: { pro_monthly: 'price_1' } }
  }
  const products = createProductMap(settings, ['free', 'pro', 'team'])
  t.equal(products.idOf('payprov', { plan: 'pro', cycle: 'yearly' }), 'b')
  t.equal(products.idOf('altprov', { plan: 'pro', cycle: 'yearly' }), undefined)
  t.strictSame(products.soldBy('payprov').map(({ plan, cycle }) => `${plan} ${cycle}`), ['pro monthly', 'pro yearly', 'team monthly'])
  t.strictSame(products.saleOf(['x', 'price_1']), { plan: 'pro', cycle: 'monthly' })
  t.strictSame(products.saleOf(['a', 'c', 'b']), { plan: 'team', cycle: 'monthly' }, 'the highest')
  t.equal(products.saleOf(['x', '__proto__', 'constructor']), null)
})

t.test('the plugin alone validates its options in the same way, by their names', async (t) => {
  const { payprov, altprov }: Record<'payprov' | 'altprov', ProviderAccount> = {
    payprov: { productMap: { pro_montly: 'a' } },
    altprov: { productMap: JSON.parse('{"pro_monthly":1}') }
  }
  const faultTexts = (settings: BillingSettings) => {
    const faults = new FaultList()
    checkBilling(settings, ['free', 'pro'], faults)
    return faults.faults.map(formatFault)
  }
  t.match(faultTexts({ provider: 'payprov', payprov }), [
    /^appUrl: missing/,
    /^payprov\.apiKey: missing/,
    /^payprov\.productMap: "pro_montly" cannot be sold/
  ])
  t.strictSame(faultTexts(JSON.parse('{"provider":"stripe"}')), ['provider: expected payprov (Polar) or altprov (Stripe)'])
  t.match(faultTexts({ altprov }), [/^altprov\.productMap: "pro_monthly": expected the provider's id as a string/])
})
