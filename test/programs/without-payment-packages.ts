/** Creates each payment provider without its package, and prints the reason of the failure. */
import { register } from 'node:module'

register(`data:text/javascript,${
  encodeURIComponent(`
export async function resolve (name, context, next) {
  if (name === 'stripe' || name.startsWith('@polar-sh/sdk')) throw Object.assign(new Error(name + ' is not there'), { code: 'ERR_MODULE_NOT_FOUND' })
  return next(name, context)
}`)
}`)

const { loadProvider } = await import('../../plugins/billing/providers/index.js')
for (const name of ['payprov', 'altprov'] as const) {
  await loadProvider(name, { apiKey: 'hunter2hunter2', webhookSecrets: ['hunter2'], baseUrl: undefined, organizationId: undefined })
    .then(() => {
      console.log(`${name}: is made`)
    }, (error: Error) => {
      console.log(`${name}: ${error.message}`)
    })
}
