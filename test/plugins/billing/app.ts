/** Servers with billing through a local payment provider. */
import type { FastifyInstance } from 'fastify'
import type { BillingOptions } from '../../../plugins/billing/index.js'
import type { ProviderName } from '../../../plugins/billing/providers/provider.js'
import { secretText } from '../../helpers/log-scan.js'
import type { SignedEvent, World } from '../../helpers/payment-world.js'
import { parsed, type Reply } from '../../http/caller.js'

export const appUrl = 'https://app.example.com/console'
export const paths = { payprov: '/billing/webhook/payprov', altprov: '/webhooks/billing/altprov' } as const satisfies Record<
  ProviderName,
  string
>

export const figures = {
  pro_monthly: { name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' },
  pro_yearly: { name: 'Pro for a year', amount: 29_000, currency: 'usd', cycle: 'yearly' },
  team_monthly: { name: 'Team', amount: 9900, currency: 'usd', cycle: 'monthly' }
} as const

export type Sales = Record<keyof typeof figures, ReturnType<World['sell']>>

/** The provider's products. */
export function sellAll (world: World): Sales {
  return {
    pro_monthly: world.sell(figures.pro_monthly),
    pro_yearly: world.sell(figures.pro_yearly),
    team_monthly: world.sell(figures.team_monthly)
  }
}

/** The plugin's options; no log may contain the key and the secret. */
export function optionsOf (provider: ProviderName, world: World, sales: Sales): BillingOptions {
  const { baseUrl } = world
  const apiKey = secretText(world.apiKey, 'the key of a provider')
  const webhookSecret = secretText(world.webhookSecret, 'a signing secret')
  // A product that the provider does not have, as in an operator's typo.
  const productMap = {
    ...Object.fromEntries(Object.entries(sales).map(([key, { product }]) => [key, product])),
    scale_yearly: provider === 'payprov' ? '00000000-0000-4000-8000-000000000000' : 'prod_missing'
  }
  return { provider, appUrl: `${appUrl}/`, [provider]: { apiKey, webhookSecret, productMap, baseUrl } }
}

/** The same as the settings of a server. */
export function envOf (provider: ProviderName, world: World, sales: Sales): Record<string, string> {
  const { appUrl = '', [provider]: { apiKey = '', webhookSecret = '', productMap, baseUrl = '' } = {} } = optionsOf(provider, world, sales)
  const prefix = provider.toUpperCase()
  return {
    PAYMENT_PROVIDER: provider,
    APP_URL: appUrl,
    [`${prefix}_API_KEY`]: apiKey,
    [`${prefix}_WEBHOOK_SECRET`]: webhookSecret,
    [`${prefix}_PRODUCT_MAP`]: JSON.stringify(productMap),
    [`${prefix}_BASE_URL`]: baseUrl
  }
}

/** Sends an event as the provider does. */
export async function deliver (app: FastifyInstance, name: ProviderName, { body, headers }: SignedEvent): Promise<Reply> {
  const response = await app.inject({
    method: 'POST',
    url: paths[name],
    headers: { 'content-type': 'application/json', ...headers },
    payload: body
  })
  return { status: response.statusCode, headers: response.headers, text: response.body, body: parsed(response.body) }
}
