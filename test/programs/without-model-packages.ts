/** Loads each model provider without its package, and prints the reason of the failure. */
import { register } from 'node:module'

register(`data:text/javascript,${
  encodeURIComponent(`
export async function resolve (name, context, next) {
  if (name.startsWith('@ai-sdk/')) throw Object.assign(new Error(name + ' is not there'), { code: 'ERR_MODULE_NOT_FOUND' })
  return next(name, context)
}`)
}`)

const { loadProvider } = await import('../../lib/models/providers.js')
for (const provider of ['openai', 'anthropic', 'google', 'local'] as const) {
  await loadProvider(provider, 'http://127.0.0.1:1/v1', fetch).then(() => {
    console.log(`${provider}: is loaded`)
  }, (error: Error) => {
    console.log(`${provider}: ${error.message}`)
  })
}
