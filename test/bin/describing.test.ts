/** `tenantry openapi` and `tenantry client` read the database of running servers without working on it. */
import { existsSync, writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import t from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { type TestDocument, testDocument, testEnv, testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { receiver } from '../plugins/webhooks/app.js'
import { here } from './tenantry.js'

const columns = { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' } } as const
const step = { id: 'write', type: 'database', operation: 'insert', table: 'ticks', data: { title: 'x' } } as const

t.test('a due job, webhook, schedule and expired file stay untouched by openapi and client', async (t) => {
  const hears = await receiver(t)
  const folder = t.testdir({ files: {} })
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres' as const, postgres: { connectionString } }
  const document = (cron: string): TestDocument => ({
    tables: { notes: { tenantScoped: true, columns }, ticks: { columns } },
    workflows: [{ id: 'due', schedule: { cron }, steps: [step] }, { id: 'waiting', steps: [step] }],
    webhooks: [{ name: 'out', url: `${hears.origin}/`, events: ['entity.created'] }],
    analytics: { enabled: true, buffer: { enabled: false } },
    files: { path: `${folder}/files` },
    routes: [{ path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }], requireAuth: true }]
  })
  // The server keeps its work for others, and has closed before the command runs.
  const server = await testServer(t, { ...document('0 3 * * *'), queue: { workers: 0 } }, { engine, tenants: [{ id: 'acme' }] })
  const by = { sub: 'ada', actor: { userId: 'ada', address: null } }
  const { id } = await server.files.put('acme', { name: 'a.txt', contentType: 'text/plain' }, Readable.from([Buffer.from('kept')]), by)
  const headers = bearer({ sub: 'ada', role: 'admin', tenant_id: 'acme' })
  const post = (url: string, payload: object) => server.inject({ method: 'POST', url, headers, payload })
  t.equal((await post('/notes', { title: 'an event' })).statusCode, 201)
  t.match(await post('/agent/workflow/run', { ref: 'waiting' }), { statusCode: 202 })
  await server.workflows.startDue(new Date(0))
  await server.close()
  await query("update tenantry.files set expires_at = now() - interval '1 hour'")
  await query("update tenantry.workflow_schedules set next_at = now() - interval '1 hour'")

  const tables = (await query("select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname like 'tenantry%'"))
    .map(({ name }) => String(name))
  const contents = async () =>
    Object.fromEntries(
      await Promise.all(tables.map(async (name) => [name, await query(`select to_jsonb(t) as row from ${name} t order by 1`)] as const))
    )
  const before = await contents()
  for (const name of ['tenantry_queue.job', 'tenantry.webhook_events', 'tenantry.workflow_schedules', 'tenantry.files']) {
    t.not(before[name]?.length ?? 0, 0, name)
  }

  const edited = `${folder}/tenantry.json`
  writeFileSync(edited, JSON.stringify(testDocument(document('0 4 * * *'), engine)))
  for (const words of [['openapi', edited], ['client', edited]]) {
    t.match(await here(words, testEnv), { code: 0 })
    t.strictSame(await contents(), before, words.join(' '))
  }
  t.ok(existsSync(`${folder}/files/acme/${id}`), 'the bytes of the file are kept')
  t.equal(hears.requests.length, 0, 'no webhook was sent')
})
