/** The adapters that the settings ask for. */
import type { BillingSettings } from '../../lib/document/rules/billing.js'
import { loadProvider } from './providers/index.js'
import { providerNames, type PaymentProvider, type ProviderName } from './providers/provider.js'
import { adapterSettings } from './settings.js'

/** An endpoint makes two calls at most, one after the other: 10 s together. */
const timeoutMs = 5000

export interface Adapters {
  /** The one that sells; null where none is chosen. */
  readonly provider: PaymentProvider | null
  /** Those with a key: they can be called. */
  readonly providers: ReadonlyMap<ProviderName, PaymentProvider>
  /** Those with a signing secret: their webhooks are served. */
  readonly receivers: ReadonlyMap<ProviderName, PaymentProvider>
}

/** Loads the packages of the providers that have a key or a signing secret; rejects where one is not installed. */
export async function openAdapters (settings: BillingSettings): Promise<Adapters> {
  const providers = new Map<ProviderName, PaymentProvider>()
  const receivers = new Map<ProviderName, PaymentProvider>()
  for (const name of providerNames) {
    const account = settings[name]
    if (account === undefined || (account.apiKey === undefined && account.webhookSecret === undefined)) continue
    const adapter = await loadProvider(name, adapterSettings(account, timeoutMs))
    if (account.apiKey !== undefined) providers.set(name, adapter)
    if (account.webhookSecret !== undefined) receivers.set(name, adapter)
  }
  return { provider: settings.provider === undefined ? null : providers.get(settings.provider) ?? null, providers, receivers }
}
