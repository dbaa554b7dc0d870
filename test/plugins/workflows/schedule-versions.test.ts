/** Schedules of servers with different versions of the platform's document, as during an update. */
import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'

type Workflow = NonNullable<TestDocument['workflows']>[number]

const minute = 60_000
const warn = 40 // a level of pino
/** After every time of the servers' own clock. */
const start = Math.ceil(Date.now() / (1440 * minute) + 2) * 1440 * minute
const at = (minutes: number): Date => new Date(start + minutes * minute)

const every = (minutes: number, id: string): Workflow => ({
  id,
  schedule: { cron: `*/${minutes} * * * *` },
  steps: [{ id: 'read', type: 'database', operation: 'select', table: 'ticks' }]
})

/** A server that has saved its schedules at the time 0. */
async function serve (t: Test, workflows: Workflow[], options: TestServerOptions): Promise<FastifyInstance> {
  const tables = { ticks: { columns: { id: { type: 'uuid', primaryKey: true } } } } as const
  // It starts workflows only when the test says so.
  const app = await testServer(t, { tables, workflows, queue: { workers: 0 } }, options)
  await app.workflows.startDue(at(0))
  return app
}

/** Servers with these workflows, one after the other, on one database. */
async function servers (t: Test, ...versions: ReadonlyArray<Workflow[]>): Promise<FastifyInstance[]> {
  const engine = await postgresSection(t)
  const apps: FastifyInstance[] = []
  for (const workflows of versions) apps.push(await serve(t, workflows, { engine }))
  return apps
}

/** The number of runs that the server starts at the time. */
async function startedBy (app: FastifyInstance | undefined, minutes: number): Promise<number | undefined> {
  const started = await app?.workflows.startDue(at(minutes))
  await app?.db.executeQuery(CompiledQuery.raw("update tenantry.workflow_runs set status = 'completed'"))
  return started
}

async function stored (app: FastifyInstance | undefined): Promise<string[] | undefined> {
  const result = await app?.db.executeQuery<{ row: string }>(
    CompiledQuery.raw("select workflow || ' ' || schedule as row from tenantry.workflow_schedules order by workflow")
  )
  return result?.rows.map(({ row }) => row)
}

test('a server with an older document deletes no schedule of a newer one', async (t) => {
  const [newer, older] = await servers(t, [every(5, 'kept'), every(10, 'added')], [every(5, 'kept')])
  t.equal(await startedBy(older, 10), 1)
  t.equal(await startedBy(newer, 10), 1)
  t.equal(await startedBy(newer, 10), 0)
  t.equal(await startedBy(older, 60), 1, 'after a time without checks')
  t.equal(await startedBy(newer, 60), 1)
  t.strictSame(await stored(newer), ['added */10 * * * * UTC', 'kept */5 * * * * UTC'])
})

test('a schedule that no server starts any longer is removed, and a server with its document puts it back', async (t) => {
  const [older, newer] = await servers(t, [every(10, 'removed')], [every(5, 'kept')])
  t.equal(await startedBy(newer, 10), 1)
  t.strictSame(await stored(newer), ['kept */5 * * * * UTC', 'removed */10 * * * * UTC'], 'the older server may start it')
  await startedBy(newer, 1440)
  t.equal((await stored(newer))?.length, 2, 'for a day')
  await startedBy(newer, 1455)
  t.strictSame(await stored(newer), ['kept */5 * * * * UTC'])
  t.equal(await startedBy(older, 1456), 0)
  t.equal(await startedBy(older, 1460), 1)
})

test('a server with an older document changes a schedule until its next time at the latest', async (t) => {
  const [newer, older] = await servers(t, [every(10, 'tick')], [every(5, 'tick')])
  t.equal(await startedBy(newer, 5), 0)
  t.equal(await startedBy(older, 5), 1)
  t.equal(await startedBy(newer, 10), 0, 'the older server may start it')
  t.equal(await startedBy(newer, 12), 0)
  t.strictSame(await stored(newer), ['tick */10 * * * * UTC'])
  t.equal(await startedBy(newer, 19), 0)
  t.equal(await startedBy(newer, 20), 1)
})

test('a server warns once that another version of the document has changed its schedule', async (t) => {
  const engine = await postgresSection(t)
  const lines: { readonly level: number, readonly workflow?: string }[] = []
  const stream = {
    write (line: string): void {
      lines.push(JSON.parse(line))
    }
  }
  const app = await serve(t, [every(5, 'tick'), every(5, 'kept')], { engine, logger: { level: 'trace', stream } })
  await startedBy(app, 1)
  await serve(t, [every(10, 'tick'), every(5, 'kept')], { engine })
  for (const minutes of [2, 3]) await startedBy(app, minutes)
  t.match(lines.filter(({ level, workflow }) => level >= warn && workflow !== undefined), [
    { level: warn, workflow: 'tick', schedule: '*/5 * * * * UTC', stored: '*/10 * * * * UTC' }
  ])
})
