/** The adapters for the settings. */
import type { BillingSettings } from '../../lib/document/rules/billing.js'
import { loadProvider } from './providers/index.js'
import { providerNames, type PaymentProvider, type ProviderName } from './providers/provider.js'
import { adapterSettings } from './settings.js'

/** An endpoint makes at most two calls, one after the other: 10 s together. */
const timeoutMs = 5000

export interface Adapters {
  /** The provider for sales; null without one. */
  readonly provider: PaymentProvider | null
  /** Providers with a key, which can be called. */
  readonly providers: ReadonlyMap<ProviderName, PaymentProvider>
  /** Providers with a signing secret, whose webhooks are accepted. */
  readonly receivers: ReadonlyMap<ProviderName, PaymentProvider>
}

/** Loads the packages of the providers with a key or a signing secret; rejects if one is not installed. */
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
