/** Loads each model provider without its package, and prints the reason of the failure. */
import { hidePackages } from '../helpers/hide-packages.js'

hidePackages('@ai-sdk')

const { loadProvider } = await import('../../lib/models/providers.js')
for (const provider of ['openai', 'anthropic', 'google', 'local'] as const) {
  await loadProvider(provider, 'http://127.0.0.1:1/v1', fetch).then(() => {
    console.log(`${provider}: is loaded`)
  }, (error: Error) => {
    console.log(`${provider}: ${error.message}`)
  })
}
