/**
 * A process that runs jobs. TEST_DATABASE is the address of the database, which is migrated. `count` writes a row in the
 * table `done` and ends; `hang` writes one in `begun` and never ends. It prints when it is ready, and ends in order at SIGTERM.
 */
import Fastify from 'fastify'
import { sql } from 'kysely'
import database from '../../plugins/database.js'
import queue from '../../plugins/queue/index.js'

const app = Fastify({ logger: { level: 'trace' } })
app.register(database, { provider: 'postgres', postgres: { connectionString: process.env['TEST_DATABASE'] ?? '' } })
app.register(queue, { stopTimeoutMs: 500 })
await app
app.queue.define('count', {}, async ({ data }) => {
  await sql`insert into done (n, pid) values (${data['n']}, ${process.pid})`.execute(app.db)
})
app.queue.define('hang', {}, async ({ id, attempt }) => {
  await sql`insert into begun (job, attempt, pid) values (${id}, ${attempt}, ${process.pid})`.execute(app.db)
  await new Promise(() => {})
})
process.once('SIGTERM', () => app.close())
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
