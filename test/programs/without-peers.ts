/** Starts the cache with each provider that needs a package, without these packages; prints the reason of each failure. */
import Fastify from 'fastify'
import { hidePackages } from '../helpers/hide-packages.js'

hidePackages('ioredis', 'lmdb')

const { default: cache } = await import('../../plugins/cache/index.js')
for (
  const options of [
    { provider: 'redis', redis: { url: 'redis://:hunter2@127.0.0.1:1' } },
    { provider: 'lmdb', lmdb: { dbPath: 'never' } },
    { provider: 'memory' }
  ] as const
) {
  const app = Fastify()
  app.register(cache, { routes: false, ...options })
  await app.ready()
    .then(() => console.log(`${options.provider}: starts`), (error: Error) => console.log(`${options.provider}: ${error.message}`))
}
