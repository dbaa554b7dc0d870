/** Creates each payment provider, and a tenant's own account, without the packages, and prints the reasons of the failures. */
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

const { createAccounts } = await import('../../plugins/tenant-billing/account.js')
const { tenantRef } = await import('../../lib/identity/tenant-ref.js')
const values = new Map([['payprov_api_key', 'hunter2hunter2']])
const accounts = createAccounts({ values: async () => values, accessed: () => undefined }, { baseUrl: undefined, timeoutMs: undefined })
await accounts.open(tenantRef('acme')).then(() => {
  console.log('tenant: is made')
}, (error: Error) => {
  console.log(`tenant: ${'code' in error ? String(error.code) : ''} ${error.message}`)
})
