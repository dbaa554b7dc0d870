/**
 * A process that stores batches of documents. TEST_DATABASE is the address of a database with pgvector, which is migrated. A text with the
 * word `stop` is embedded once the file of TEST_GATE exists. It prints when it is ready.
 */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import auth from '../../plugins/auth/index.js'
import database from '../../plugins/database/index.js'
import embeddings from '../../plugins/embeddings/index.js'
import queue from '../../plugins/queue/index.js'
import tenancy from '../../plugins/tenancy/index.js'
import { fakeModels, modelsPlugin } from '../helpers/models.js'
import { testSecret } from '../helpers/tokens.js'

const dimensions = 64
const models = fakeModels(dimensions)
models.before = async ({ texts }) => {
  if (!texts.some((text) => text.includes('stop'))) return
  console.log('embedding the document that stops')
  while (!existsSync(process.env['TEST_GATE'] ?? '')) await sleep(20)
}
const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace' } })
await app.register(database, { postgres: { connectionString: process.env['TEST_DATABASE'] ?? '' }, vectorTable: { dimensions } })
await app.register(auth, { jwt: { secret: testSecret } })
await app.register(tenancy)
await app.register(queue, { routes: false, workers: 2, stopTimeoutMs: 500 })
await app.register(modelsPlugin(models))
await app.register(embeddings, { dimensions, routes: false })
process.once('SIGTERM', () => app.close())
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
