/**
 * Measures what asynchronous workflow runs cost: starts a second, the time of a run at an idle queue from start to end, and the throughput
 * of a process in runs of three database steps. `node --import tsx bench/workflow-runs.ts`. Options:
 *   --seconds N     seconds of starts (default 5)
 *   --senders N     concurrent starts (default 32)
 *   --samples N     runs at an idle queue (default 100)
 *   --workers N     concurrent runs of the process (default 4)
 */
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { platformRef, tenantRef } from '../lib/identity/tenant-ref.js'
import type { CompiledWorkflow } from '../lib/workflows/index.js'
import auth from '../plugins/auth/index.js'
import database from '../plugins/database/index.js'
import queue from '../plugins/queue/index.js'
import tenancy from '../plugins/tenancy/index.js'
import workflows from '../plugins/workflows/index.js'
import { startDatabase, tenants } from './database.js'
import { markdownTable, median } from './statistics.js'

const { values: given } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    senders: { type: 'string', default: '32' },
    samples: { type: 'string', default: '100' },
    workers: { type: 'string', default: '4' }
  }
})
const [seconds = 0, senders = 0, samples = 0, workers = 0] = [given.seconds, given.senders, given.samples, given.workers].map(Number)
if (![seconds, senders, samples, workers].every((number) => number > 0)) throw new Error('the options must be numbers above 0')

const insert = { type: 'database', operation: 'insert', table: 'run_notes' } as const
const declared = [{
  id: 'three',
  steps: [
    { ...insert, id: 'first', data: { title: '{{input.title}}' } },
    { ...insert, id: 'second', data: { title: '{{steps.first.result.title}}' } },
    { ...insert, id: 'third', data: { title: '{{steps.second.result.title}}' } }
  ]
}]
const tables = {
  run_notes: {
    tenantScoped: true,
    columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } }
  }
} as const

const bench = await startDatabase()
const apps: FastifyInstance[] = []
try {
  const sender = await start(0)
  await sql`insert into tenantry.tenants (id, name, plan) select id, id, 'free' from unnest(${[...tenants]}::text[]) as id`.execute(
    sender.db
  )
  const workflow = (await sender.workflows.documents.find(platformRef, 'three'))?.compiled()
  if (workflow === undefined || workflow === null) throw new Error('the workflow does not compile')
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${senders} starts at a time, of ${tenants.length} tenants\n`
  )

  const end = performance.now() + seconds * 1000
  let started = 0
  await Promise.all(Array.from({ length: senders }, async (_, index) => {
    for (; performance.now() < end; started++) await begin(sender, workflow, tenants[index % tenants.length] ?? '')
  }))
  await sql`truncate tenantry_queue.job, tenantry.workflow_runs, tenantry.workflow_steps`.execute(sender.db)

  const worker = await start(workers)
  const times: number[] = []
  for (let n = 0; n < samples; n++) {
    const before = performance.now()
    await begin(sender, workflow, tenants[n % tenants.length] ?? '')
    await finished(sender)
    times.push(performance.now() - before)
    await sleep(30)
  }
  const runs = 2000
  await Promise.all(Array.from({ length: runs }, (_, index) => begin(sender, workflow, tenants[index % tenants.length] ?? '')))
  const before = performance.now()
  await finished(sender)
  const rate = runs / (performance.now() - before) * 1000
  await worker.close()
  console.log(markdownTable(['figure', 'measured', 'target'], [
    ['starts a second', (started / seconds).toFixed(0), '≥ 1000'],
    ['from the start to the end of three steps, at an idle queue, p50', `${median(times).toFixed(1)} ms`, '< 100 ms'],
    [`runs of three steps a second, of a process with ${workers} workers`, rate.toFixed(0), '']
  ]))
} finally {
  for (const app of apps) await app.close()
  await bench.stop()
}

async function start (workers: number): Promise<FastifyInstance> {
  const app = Fastify()
  apps.push(app)
  app.register(database, { provider: 'postgres', postgres: { connectionString: bench.connectionString }, migrate: 'auto', tables })
  app.register(auth, {})
  app.register(tenancy)
  app.register(queue, { workers, stopTimeoutMs: 100 })
  app.register(workflows, { workflows: declared })
  await app.ready()
  return app
}

async function begin (app: FastifyInstance, workflow: CompiledWorkflow, tenant: string): Promise<void> {
  const scope = {
    body: null,
    params: {},
    query: {},
    headers: {},
    auth: { sub: 'user' },
    tenant: await app.tenants.get(tenant),
    secrets: new Map<string, string>(),
    results: {},
    fullAccess: false,
    input: { title: 'x'.repeat(200) }
  }
  await app.workflows.start({ tenant: tenantRef(tenant), user: 'user', workflow, scope })
}

/** Resolves when no run is open. */
async function finished ({ db }: FastifyInstance): Promise<void> {
  for (;;) {
    const { rows } = await sql`select from tenantry.workflow_runs where status in ('queued', 'running') limit 1`.execute(db)
    if (rows.length === 0) return
    await sleep(1)
  }
}
