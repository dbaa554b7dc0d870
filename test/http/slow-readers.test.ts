/** Callers that never read their responses over HTTP, and the memory of a separate process. */
import { readFile } from 'node:fs/promises'
import { type Test, test } from 'tap'
import { startInstance } from '../helpers/instances.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { bearer } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { requestText, slowReader } from '../plugins/responses/slow-readers.js'

const megabyte = 1_048_576
const large = 10_000_000

/** The process's peak memory in bytes; NaN if the system does not report it. */
async function peakOf (pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) * 1024
}

async function whole (t: Test, origin: string, tenant: string): Promise<void> {
  const response = await fetch(`${origin}/texts/1`, { headers: bearer({ tenant_id: tenant }) })
  t.equal(response.status, 200)
  t.ok((await response.text()).length > large)
}

test("60 connections that request 10 MB and never read do not exhaust the process's memory", async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create table texts (id int primary key, text text);
      insert into texts values (1, (select string_agg(md5(i::text), '') from generate_series(1, ${large / 32 + 1}) i))`
  })
  const { address, pid, output } = await startInstance(t, {
    server: { writeTimeoutMs: 1000 },
    tenancy: { sharedTables: ['texts'] },
    routes: [{
      path: '/texts/:id',
      method: 'get',
      requireAuth: true,
      queries: [{ table: 'texts', operation: 'select', id: '{{params.id}}' }]
    }]
  }, { provider: 'postgres', postgres: { connectionString } })
  await whole(t, address, 'a')
  const before = await peakOf(pid)
  const request = requestText('GET', '/texts/1', bearer({ tenant_id: 'a' }))
  const readers = await Promise.all(Array.from({ length: 60 }, () => slowReader(t, address, request)))
  // A rejected request ends at once, an admitted one when its connection is closed.
  await until('all requests have ended', () => output().split('"msg":"request"').length - 1 >= 61)
  const responses = await Promise.all(readers.map(({ read }) => read()))
  // 503: no database connection became free in time.
  t.strictSame([...new Set(responses.map(({ status }) => status))].filter((status) => status !== 503).sort(), [200, 429])
  t.ok(responses.every(({ bytes }) => bytes < large), 'no connection that did not read received everything')
  const grown = await peakOf(pid) - before
  t.comment(`peak memory grew by ${Math.round(grown / megabyte)} MB`)
  t.notOk(grown > 512 * megabyte, `peak memory grew by ${Math.round(grown / megabyte)} MB`)
  await whole(t, address, 'a')
  await whole(t, address, 'b')
})
