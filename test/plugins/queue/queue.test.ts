import type { FastifyInstance } from 'fastify'
import { test, type Test } from 'tap'
import Fastify from 'fastify'
import { createServer } from '../../../lib/server.js'
import database from '../../../plugins/database.js'
import queue from '../../../plugins/queue/index.js'
import { until } from '../../helpers/instances.js'
import { forEachEngine } from '../../helpers/postgres.js'

test('first', (t) => forEachEngine(t, async (t, engine) => {
  const app = Fastify({ logger: { level: 'debug' } })
  app.register(database, engine.provider === 'postgres' ? { provider: 'postgres', postgres: engine.postgres, migrate: 'auto' } : { provider: 'embedded', migrate: 'auto' } as never)
  app.register(queue, {})
  t.teardown(() => app.close())
  await app
  const seen: unknown[] = []
  app.queue.define('x', {}, async (job) => { seen.push([job.tenant, job.data, job.attempt]) })
  await app.ready()
  const start = performance.now()
  t.ok(await app.queue.send('x', { tenant: '', data: { a: 1 } }))
  await until(t, 'done', async () => seen.length > 0)
  console.log(performance.now() - start, seen)
}))
