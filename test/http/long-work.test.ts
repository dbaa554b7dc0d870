/** Long work of a tenant's requests waits for turns of the tenant, and does not delay other tenants. */
import { test } from 'tap'
import { turns } from '../../lib/concurrency/event-loop-yielder.js'
import { holdInPause } from '../helpers/pauses.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'

const characters = 400_000 // of the large text

test('values are computed, and long texts are read, in turns of the tenant', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create table texts (tenant_id text not null, id int not null, text text not null, primary key (tenant_id, id));
      insert into texts select t, id, repeat('x', case id when 1 then 1 else ${characters} end) from unnest(array['busy', 'other']) t, generate_series(1, 2) id`
  })
  const row = { table: 'texts', operation: 'select', id: '{{params.id}}' } as const
  const app = await testServer(t, {
    routes: [
      { path: '/rows/:id', method: 'get', requireAuth: true, queries: [row] },
      { path: '/computed/:id', method: 'get', requireAuth: true, queries: [row], transform: { fields: { size: 'size(item.text)' } } },
      { path: '/mapped/:id', method: 'get', requireAuth: true, queries: [row], response: { id: '{{results.texts.id}}' } },
      {
        path: '/later/:id',
        method: 'get',
        requireAuth: true,
        queries: [row, { ...row, alias: 'same', id: '{{results.texts.id}}' }],
        response: { id: '{{results.same.id}}' }
      },
      {
        path: '/texts',
        method: 'post',
        requireAuth: true,
        request: { body: { id: { type: 'integer' }, text: { type: 'string' } } },
        queries: [{ table: 'texts', operation: 'upsert' }],
        transform: { fields: { size: 'size(item.text)' } },
        response: { text: '{{results.texts.text}}', size: '{{results.texts.size}}' }
      },
      {
        path: '/runs/:id',
        method: 'post',
        requireAuth: true,
        workflow: { steps: [{ id: 'text', type: 'database', operation: 'select', table: 'texts', filters: [{ column: 'id', value: '{{params.id}}' }] }] },
        transform: { fields: { count: 'size(result.data)' } }
      }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['busy', 'other'] })
  const get = (tenant: string, url: string) => app.inject({ url, headers: bearer({ tenant_id: tenant }) })
  const post = (tenant: string, url: string, payload: object) =>
    app.inject({ method: 'POST', url, headers: bearer({ tenant_id: tenant }), payload })
  const waiting = () => turns.yielder('tenant busy').waiting

  await t.test('other requests of the tenant, and those of other tenants, do not wait', async (t) => {
    const pause = holdInPause(t, 'busy')
    const long = [
      get('busy', '/computed/1'),
      get('busy', '/mapped/2'),
      get('busy', '/later/2'),
      get('busy', `/rows/1?more=${'x'.repeat(2048)}`),
      post('busy', '/texts', { id: 3, text: 'x' }),
      post('busy', '/texts', { id: 4, text: 'x'.repeat(3000) }),
      post('busy', '/runs/1', {})
    ]
    await until('all of them wait', () => waiting() === long.length)
    for (const url of ['/rows/1', '/rows/2', '/mapped/1', '/later/1']) t.equal((await get('busy', url)).statusCode, 200, url)
    for (const url of ['/computed/1', '/mapped/2', '/later/2']) t.equal((await get('other', url)).statusCode, 200, url)
    t.equal(waiting(), long.length, 'nothing of the waiting work was done')
    pause.end()
    for (const response of await Promise.all(long)) t.match([200, 400], [response.statusCode], response.body)
  })

  await t.test('the results that wait are bounded', async (t) => {
    const pause = holdInPause(t, 'busy')
    const statuses: number[] = []
    const reads = Array.from({ length: 200 }, async () => {
      statuses.push((await get('busy', '/mapped/2')).statusCode)
    })
    await until('all wait or are refused', () => waiting() + statuses.length === reads.length)
    t.ok(waiting() * characters < 2 * 67_108_864, `${waiting()} results in memory`)
    t.strictSame([...new Set(statuses)], [429])
    pause.end()
    await Promise.all(reads)
    t.ok(statuses.includes(200))
    t.equal(app.engine.resultMemory.bytes, 0)
  })
})
