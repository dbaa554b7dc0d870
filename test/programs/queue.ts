/**
 * A process that runs jobs. TEST_DATABASE is the address of the database, which is migrated. It prints when it is ready, and stops cleanly
 * at SIGTERM. The jobs:
 * - `count` inserts a row into the table `done`, which rejects a second one, and ends
 * - `hang` inserts one into `begun` and never ends
 * - `linger` does the same in its first attempt, and ends in a later one
 * - `kill` inserts one into `begun` and, once a `linger` has begun, kills the process
 */
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import { sql } from 'kysely'
import { createBatcher } from '../../lib/concurrency/batcher.js'
import database from '../../plugins/database/index.js'
import type { Job } from '../../plugins/queue/index.js'
import queue from '../../plugins/queue/index.js'

const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace' } })
app.register(database, { provider: 'postgres', postgres: { connectionString: process.env['TEST_DATABASE'] ?? '' } })
app.register(queue, { routes: false, workers: 20, stopTimeoutMs: 500 })
await app
// Rows of concurrent jobs are written together: the test counts jobs, and not the cost of a commit for each.
const count = createBatcher<number, void>(async (numbers) => {
  await sql`insert into done (n, pid) select n, ${process.pid} from unnest(${numbers}::int[]) as n`.execute(app.db)
})
app.queue.define('count', {}, ({ data }) => count(Number(data['n'])))
const begin = async ({ id, attempt }: Job) => {
  await sql`insert into begun (job, attempt, pid) values (${id}, ${attempt}, ${process.pid})`.execute(app.db)
}
app.queue.define('hang', {}, async (job) => {
  await begin(job)
  await new Promise(() => {})
})
app.queue.define('linger', {}, async (job) => {
  await begin(job)
  if (job.attempt === 1) await new Promise(() => {})
})
app.queue.define('kill', {}, async (job) => {
  await begin(job)
  while ((await sql`select from begun where job <> ${job.id}`.execute(app.db)).rows.length === 0) await sleep(10)
  process.kill(process.pid, 'SIGKILL')
})
process.once('SIGTERM', () => app.close())
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
