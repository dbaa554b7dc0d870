/** Creates each payment provider without its package, and prints the reason of the failure. */
import { hidePackages } from '../helpers/hide-packages.js'

hidePackages('stripe', '@polar-sh/sdk')

const { loadProvider } = await import('../../plugins/billing/providers/index.js')
for (const name of ['payprov', 'altprov'] as const) {
  await loadProvider(name, { apiKey: 'hunter2hunter2', webhookSecrets: ['hunter2'], baseUrl: undefined, organizationId: undefined })
    .then(() => {
      console.log(`${name}: is made`)
    }, (error: Error) => {
      console.log(`${name}: ${error.message}`)
    })
}
