/** Reads the payment providers' settings from the environment and checks them. Faults never show the value of a secret setting. */
import { type Env, setting } from '../../expressions/environment.js'
import { isRecord } from '../../json/plain-value.js'
import { createPlans } from '../../plans/plans.js'
import { ConfigError, type Fault, type FaultList, nearest } from '../../schema/faults.js'
import type { Plans as Changes } from '../../schema/plans.js'
import { parseJson } from '../json.js'
import { isBaseAddress } from '../web-address.js'

export const providerNames = ['payprov', 'altprov'] as const
export type ProviderName = typeof providerNames[number]
export const cycles = ['monthly', 'yearly'] as const
export type Cycle = typeof cycles[number]

const expectedProvider = 'expected payprov (Polar) or altprov (Stripe)'

const maxText = 1024 // characters of a key, a secret or an address
const maxId = 255 // characters; ids of both providers are far shorter
const providerId = new RegExp(`^[A-Za-z0-9_-]{1,${maxId}}$`)

/** The settings of one payment provider. */
export interface ProviderAccount {
  /** The key of the platform's account: visible ASCII characters. */
  readonly apiKey?: string | undefined
  /** The organization of the key; `payprov` only. */
  readonly organizationId?: string | undefined
  /** The signing secret of the provider's webhooks. Without it they get 503. */
  readonly webhookSecret?: string | undefined
  /** Former signing secrets, which are accepted too. Default: none. */
  readonly previousWebhookSecrets?: readonly string[] | undefined
  /** The provider's ids of products or prices, by `<tier>_<cycle>`: `{ "pro_monthly": "..." }`. */
  readonly productMap?: Readonly<Record<string, string>> | undefined
  /** Default: the provider's own address. */
  readonly baseUrl?: string | undefined
}

export interface BillingSettings {
  /** The provider for sales and syncs. Default: none. Webhooks of the other one are accepted if it has a secret. */
  readonly provider?: ProviderName | undefined
  /** The address of the app to which the browser returns after a checkout: absolute, http(s). Required with a provider. */
  readonly appUrl?: string | undefined
  readonly payprov?: ProviderAccount | undefined
  readonly altprov?: ProviderAccount | undefined
}

const endings: Readonly<Record<keyof ProviderAccount, string>> = {
  apiKey: 'API_KEY',
  organizationId: 'ORGANIZATION_ID',
  webhookSecret: 'WEBHOOK_SECRET',
  previousWebhookSecrets: 'PREVIOUS_WEBHOOK_SECRETS',
  productMap: 'PRODUCT_MAP',
  baseUrl: 'BASE_URL'
}
/** The names of settings in faults: `PAYPROV_API_KEY` of the environment, `payprov.apiKey` of a plugin's options. */
const variables = {
  provider: 'PAYMENT_PROVIDER',
  appUrl: 'APP_URL',
  of: (provider: ProviderName, member: keyof ProviderAccount) => `${provider.toUpperCase()}_${endings[member]}`
}
const options: typeof variables = { provider: 'provider', appUrl: 'appUrl', of: (provider, member) => `${provider}.${member}` }

/** The settings of the environment; undefined without any. Faults name the variable. */
export function billingOf (env: Env, plans: Changes, faults: FaultList): BillingSettings | undefined {
  const payprov = accountOf('payprov', env, faults)
  const altprov = accountOf('altprov', env, faults)
  const named = given(env, variables.provider)
  const provider = providerNames.find((name) => name === named)
  if (named !== undefined && provider === undefined) addFault(faults, variables.provider, expectedProvider, nearest(named, providerNames))
  if (named === undefined && payprov === undefined && altprov === undefined) return undefined
  const settings = { provider, appUrl: given(env, variables.appUrl), payprov, altprov }
  checkSettings(settings, createPlans(plans).tiers, variables, faults)
  return settings
}

/** Checks only the address for tenants' own accounts. */
export function checkPayprovAddress (env: Env, faults: FaultList): void {
  const name = variables.of('payprov', 'baseUrl')
  const address = given(env, name)
  if (address !== undefined) checkUrl(address, name, faults)
}

/** Checks the options of the plugin alone. */
export function checkBilling (settings: BillingSettings, tiers: readonly string[], faults: FaultList): void {
  const isKnown = settings.provider === undefined || providerNames.includes(settings.provider)
  if (!isKnown) addFault(faults, options.provider, expectedProvider)
  const before = faults.faults.length
  for (const one of providerNames) {
    const map = settings[one]?.productMap
    if (map !== undefined) checkTextMap(map, options.of(one, 'productMap'), faults)
  }
  if (faults.faults.length === before) checkSettings(isKnown ? settings : { ...settings, provider: undefined }, tiers, options, faults)
}

/** The plan and cycle of a key of a product map; null for an invalid one. */
export function soldAs (key: string, tiers: readonly string[]): { readonly plan: string, readonly cycle: Cycle } | null {
  const end = key.lastIndexOf('_')
  const cycle = cycles.find((name) => name === key.slice(end + 1))
  const plan = key.slice(0, end)
  return end > 0 && cycle !== undefined && tiers.includes(plan) ? { plan, cycle } : null
}

/** Whether the text can be an id of a provider, and so a part of a path. */
export function isProviderId (value: string): boolean {
  return providerId.test(value)
}

/** An empty variable counts as unset. */
function given (env: Env, name: string): string | undefined {
  const text = setting(env, name)?.trim()
  return text === '' ? undefined : text
}

function accountOf (provider: ProviderName, env: Env, faults: FaultList): ProviderAccount | undefined {
  const of = (member: keyof ProviderAccount) => given(env, variables.of(provider, member))
  const [previous, map] = [of('previousWebhookSecrets'), of('productMap')]
  const account = {
    apiKey: of('apiKey'),
    organizationId: provider === 'payprov' ? of('organizationId') : undefined,
    webhookSecret: of('webhookSecret'),
    previousWebhookSecrets: previous?.split(',').map((text) => text.trim()).filter((text) => text !== ''),
    productMap: map === undefined ? undefined : mapOf(map, variables.of(provider, 'productMap'), faults),
    baseUrl: of('baseUrl')
  }
  return Object.values(account).some((value) => value !== undefined) ? account : undefined
}

/** Empty after a fault. */
function mapOf (text: string, name: string, faults: FaultList): Readonly<Record<string, string>> {
  try {
    const value = parseJson(text, name)
    // Its members are checked with the rest.
    if (checkTextMap(value, name, faults)) return value
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    faults.take(error.faults)
  }
  return {}
}

/** Whether each id is a string; adds a fault for each other one. */
function checkTextMap (value: unknown, name: string, faults: FaultList): value is Readonly<Record<string, string>> {
  const before = faults.faults.length
  if (!isRecord(value)) {
    addFault(faults, name, 'expected a JSON object of the provider\'s ids by `<tier>_<cycle>`, such as {"pro_monthly":"..."}')
  } else {
    for (const [key, id] of Object.entries(value)) {
      if (typeof id !== 'string') addFault(faults, name, `"${key}": expected the provider's id as a string`)
    }
  }
  return faults.faults.length === before
}

function checkSettings (settings: BillingSettings, tiers: readonly string[], names: typeof variables, faults: FaultList): void {
  const { provider, appUrl } = settings
  const missing = (place: string, value: string) => addFault(faults, place, `missing: the selected payment provider requires ${value}`)
  if (appUrl !== undefined) checkUrl(appUrl, names.appUrl, faults)
  else if (provider !== undefined) missing(names.appUrl, 'the absolute URL of the app to which a checkout returns')
  if (provider !== undefined && settings[provider]?.apiKey === undefined) missing(names.of(provider, 'apiKey'), 'its API key')
  if (provider !== undefined && settings[provider]?.productMap === undefined) {
    missing(names.of(provider, 'productMap'), 'the ids of the sold products, such as {"pro_monthly":"..."}')
  }
  const sold = new Map<string, string>()
  for (const one of providerNames) {
    const account = settings[one]
    if (account !== undefined) checkAccount(one, account, (member) => names.of(one, member), tiers, sold, faults)
  }
}

/** `sold` has the plan and cycle of each id of both providers, to find the plan of a subscription. */
function checkAccount (
  provider: ProviderName,
  account: ProviderAccount,
  name: (member: keyof ProviderAccount) => string,
  tiers: readonly string[],
  sold: Map<string, string>,
  faults: FaultList
): void {
  const { apiKey, organizationId, webhookSecret, previousWebhookSecrets = [], productMap = {}, baseUrl } = account
  const isSent = (text: string | undefined) => text === undefined || (text.length <= maxText && /^[\x21-\x7e]+$/.test(text))
  // A fault shows no id: the provider may have let its user choose it.
  const isKept = (text: string | undefined) => text === undefined || (text !== '' && text.length <= maxText && !/\p{Cc}/u.test(text))
  if (!isSent(apiKey)) addFault(faults, name('apiKey'), `expected 1 to ${maxText} visible ASCII characters`)
  if (!isSent(organizationId)) addFault(faults, name('organizationId'), `expected 1 to ${maxText} visible ASCII characters`)
  if (!isKept(webhookSecret)) addFault(faults, name('webhookSecret'), `expected 1 to ${maxText} characters without line breaks`)
  if (!previousWebhookSecrets.every(isKept)) {
    addFault(faults, name('previousWebhookSecrets'), `expected secrets of 1 to ${maxText} characters without line breaks`)
  }
  if (webhookSecret === undefined && previousWebhookSecrets.length > 0) {
    addFault(faults, name('webhookSecret'), 'missing: there are previous secrets, but no current secret')
  }
  if (
    baseUrl !== undefined && checkUrl(baseUrl, name('baseUrl'), faults) && provider === 'altprov' &&
    !/^\/(v1\/?)?$/.test(new URL(baseUrl).pathname)
  ) {
    addFault(faults, name('baseUrl'), 'expected a URL without a path, such as https://api.stripe.com: the SDK does not support a path')
  }
  for (const [key, id] of Object.entries(productMap)) {
    const place = name('productMap')
    if (soldAs(key, tiers) === null) {
      const known = tiers.filter((tier) => tier !== 'free').flatMap((tier) => cycles.map((cycle) => `${tier}_${cycle}`))
      addFault(
        faults,
        place,
        `"${key}" cannot be sold: expected \`<tier>_<cycle>\` of a plan, with the cycle ${cycles.join(' or ')}`,
        nearest(key, known)
      )
    }
    if (!isProviderId(id)) {
      addFault(faults, place, `"${key}": expected the provider's id of a product or price, 1 to ${maxId} characters of A-Z a-z 0-9 _ -`)
    } else if (sold.has(id)) {
      addFault(faults, place, `"${key}" has the same id as ${sold.get(id) ?? ''}: their subscriptions could not be distinguished`)
    } else sold.set(id, `"${key}" of ${place}`)
  }
}

/** Whether it is a valid address. Faults do not show it, since it may contain a password. */
function checkUrl (text: string, place: string, faults: FaultList): boolean {
  const plain = text.length <= maxText && isBaseAddress(text)
  if (!plain) addFault(faults, place, 'expected an absolute URL, http or https, without user name, query string and fragment')
  return plain
}

function addFault (faults: FaultList, location: string, message: string, suggestion?: string): void {
  const fault: Fault = { pointer: '', location, message }
  faults.take([suggestion === undefined ? fault : { ...fault, suggestion }])
}
