/** Payment providers by their names. An adapter's SDK is an optional peer, which is loaded with it. */
import type { PaymentProvider, ProviderName, ProviderSettings } from './provider.js'

const adapters = {
  payprov: async (settings) => await (await import('./payprov/index.js')).createPayprov(settings),
  altprov: async (settings) => await (await import('./altprov/index.js')).createAltprov(settings)
} as const satisfies Record<ProviderName, (settings: ProviderSettings) => Promise<PaymentProvider>>

/** Creates the adapter. Throws an error that names the missing SDK's package. Sends nothing. */
export async function loadProvider (name: ProviderName, settings: ProviderSettings): Promise<PaymentProvider> {
  return await adapters[name](settings)
}
