/**
 * Measures what background jobs cost: sends a second, with and without a row; the wait of a job at an idle queue; the throughput of a
 * process; the wait of another tenant's first job behind 10,000; and the lists of jobs. `node --import tsx bench/queue.ts`. Options:
 *   --seconds N     seconds of sends (default 5)
 *   --senders N     concurrent sends (default 32)
 *   --jobs N        jobs of the flood (default 10000)
 *   --samples N     jobs sent at an idle queue (default 100)
 *   --workers N     concurrent jobs of the process (default 4)
 */
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { tenantRef } from '../lib/identity/tenant-ref.js'
import database from '../plugins/database/index.js'
import type { Queue, SendWith } from '../plugins/queue/index.js'
import queue from '../plugins/queue/index.js'
import { createJobList } from '../plugins/queue/list.js'
import { startDatabase, tenants } from './database.js'
import { markdownTable, median } from './statistics.js'

const { values: given } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    senders: { type: 'string', default: '32' },
    jobs: { type: 'string', default: '10000' },
    samples: { type: 'string', default: '100' },
    workers: { type: 'string', default: '4' }
  }
})
const [seconds, senders, jobs, samples, workers] = [given.seconds, given.senders, given.jobs, given.samples, given.workers].map(Number)
if (
  seconds === undefined || senders === undefined || jobs === undefined || samples === undefined || workers === undefined ||
  ![seconds, senders, jobs, samples, workers].every((number) => number > 0)
) throw new Error('the options must be numbers above 0')
const workMs = 5 // duration of a job of the flood

const bench = await startDatabase()
const begun = new Map<string, (at: number) => void>()
/** Jobs that started before their sender received their id. */
const early = new Map<string, number>()
let done = 0
const apps: FastifyInstance[] = []
try {
  const sender = await start(0)
  await sql`create table rows (id uuid primary key, tenant_id text, body text)`.execute(sender.app.db)
  await sql`insert into tenantry.tenants (id, name, plan) select id, id, 'free' from unnest(${[...tenants]}::text[]) as id`.execute(
    sender.app.db
  )
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${senders} sends at a time, of ${tenants.length} tenants\n`)
  const data = { text: 'x'.repeat(500) }
  const rates: string[][] = []
  rates.push(['sends', (await rate((tenant) => sender.app.queue.send('idle', { tenant, data }))).toFixed(0), '≥ 1000'])
  rates.push([
    'sends with their own row',
    (await rate((tenant) => sender.sendWith({ tenant, data }, data.text, 500))).toFixed(0),
    '≥ 1000'
  ])
  rates.push([
    'sends in a transaction each',
    (await rate((tenant) =>
      sender.app.db.transaction().execute((transaction) => sender.app.queue.send('idle', { tenant, data }, transaction))
    )).toFixed(0),
    ''
  ])
  await sql`truncate tenantry_queue.job`.execute(sender.app.db)
  console.log(markdownTable(['figure', 'a second', 'target'], rates))

  const { app: worker } = await start(workers)
  const waits: number[] = []
  for (let n = 0; n < samples; n++) {
    waits.push(await startOf(sender.app.queue, tenants[n % tenants.length] ?? ''))
    await sleep(30)
  }
  console.log(
    `\nStart at an idle queue, of another process: p50 ${median(waits).toFixed(1)} ms, highest ${Math.max(...waits).toFixed(1)} ms (target: p50 < 100 ms)`
  )

  done = 0
  const began = performance.now()
  await flood(sender.app.queue, 'idle')
  const sent = performance.now()
  await finished()
  console.log(
    `\n${jobs} jobs that do nothing: sent in ${((sent - began) / 1000).toFixed(1)} s, done ${
      ((performance.now() - began) / 1000).toFixed(1)
    } s after the first was sent, by one process with ${workers} workers`
  )

  done = 0
  await flood(sender.app.queue, 'work')
  const firsts: number[] = []
  for (const tenant of tenants.slice(1, 6)) firsts.push(await startOf(sender.app.queue, tenant, 'work'))
  console.log(
    `\nAnother tenant's first job behind ${jobs - done} jobs of ${workMs} ms each: median ${median(firsts).toFixed(0)} ms, highest ${
      Math.max(...firsts).toFixed(0)
    } ms (target: < 2000 ms)`
  )
  await worker.close()
  await lists(sender.app)
} finally {
  for (const app of apps) await app.close()
  await bench.stop()
}

async function start (workers: number): Promise<{ app: FastifyInstance, sendWith: SendWith<string> }> {
  const app = Fastify()
  apps.push(app)
  await app.register(database, { provider: 'postgres', postgres: { connectionString: bench.connectionString }, migrate: 'auto' })
  await app.register(queue, { workers, stopTimeoutMs: 100 })
  app.queue.define('idle', {}, async ({ id }) => {
    done++
    tell(id)
  })
  app.queue.define('work', {}, async ({ id }) => {
    tell(id)
    await sleep(workMs)
    done++
  })
  const sendWith = app.queue.sendWith<string>('idle', async (transaction, sent) => {
    await sql`insert into rows (id, tenant_id, body) select * from unnest(${sent.map(({ id }) => id)}::uuid[], ${
      sent.map(({ tenant }) => tenant)
    }::text[], ${sent.map(({ row }) => row)}::text[])`.execute(transaction)
  })
  await app.ready()
  return { app, sendWith }
}

/** The requests of the endpoints, with 100,000 waiting jobs. */
async function lists ({ db }: FastifyInstance): Promise<void> {
  await sql`truncate tenantry_queue.job`.execute(db)
  await sql`insert into tenantry_queue.job (name, data) select 'jobs', json_build_object('tenant', 'tenant-' || n % 10, 'task', 'idle', 'data', '{}'::json) from generate_series(1, 100000) n`
    .execute(db)
  await sql`analyze tenantry_queue.job`.execute(db)
  const list = createJobList(db)
  const page = { limit: 20, offset: 0 }
  const asked: Record<string, () => Promise<unknown>> = {
    'the first page': () => list.page({}, page),
    'the last page': () => list.page({}, { limit: 20, offset: 10_000 }),
    'of a tenant and a state': () => list.page({ tenant: tenantRef('tenant-3'), state: 'failed' }, page),
    'the figures': () => list.counts()
  }
  const rows: string[][] = []
  for (const [name, ask] of Object.entries(asked)) {
    const times: number[] = []
    for (let n = 0; n < 10; n++) {
      const before = performance.now()
      await ask()
      times.push(performance.now() - before)
    }
    rows.push([name, median(times).toFixed(1)])
  }
  console.log(`\n${markdownTable(['100,000 jobs wait', 'ms'], rows)}`)
}

function tell (id: string): void {
  const now = performance.now()
  const listener = begun.get(id)
  if (listener === undefined) early.set(id, now)
  else listener(now)
}

/** Milliseconds from the send to the handler. */
async function startOf (queue: Queue, tenant: string, name = 'idle'): Promise<number> {
  const before = performance.now()
  const id = await queue.send(name, { tenant, data: {} })
  if (id === null) throw new Error('the job was not sent')
  const at = early.get(id) ?? await new Promise<number>((resolve) => begun.set(id, resolve))
  begun.delete(id)
  early.clear()
  return at - before
}

async function rate (send: (tenant: string) => Promise<unknown>): Promise<number> {
  const end = performance.now() + Number(seconds) * 1000
  let sent = 0
  await Promise.all(Array.from({ length: Number(senders) }, async (_, index) => {
    while (performance.now() < end) {
      await send(tenants[index % tenants.length] ?? '')
      sent++
    }
  }))
  return sent / Number(seconds)
}

async function finished (): Promise<void> {
  for (;;) {
    if (done >= Number(jobs)) return
    await sleep(10)
  }
}

async function flood (queue: Queue, name: string): Promise<void> {
  const tenant = tenants[0] ?? ''
  for (let left = Number(jobs); left > 0; left -= 1000) {
    await Promise.all(Array.from({ length: Math.min(left, 1000) }, () => queue.send(name, { tenant, data: {} })))
  }
}
