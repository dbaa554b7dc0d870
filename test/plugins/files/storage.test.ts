/** Storage is reserved before the bytes arrive, and is exact after any mix of uploads. */
import { sql } from 'kysely'
import { test } from 'tap'
import { listen, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { postgresSection } from '../auth/app.js'
import { boundary, file, form, MB, onDisk, open, plans, rows, storage, type User, userOf } from './app.js'

test('of a hundred parallel uploads with storage for seven, seven succeed', async (t) => {
  const opened = await open(t)
  const user = opened.as('seven')
  const responses = await Promise.all(Array.from({ length: 100 }, () => user.upload([file(Buffer.alloc(MB))])))
  const statuses = responses.map(({ status }) => status).sort()
  t.same(statuses, [...Array<number>(7).fill(201), ...Array<number>(93).fill(402)])
  t.match(responses.find(({ status }) => status === 402)?.body, {
    code: 'TENANTRY_PLAN_LIMIT',
    allowed: false,
    upgrade: { plan: 'large', limit: -1 }
  })
  t.same(await storage(opened.app, 'seven'), { booked: 7 * MB, reserved: 0, shown: 7 * MB })
  t.equal((await user.ask('GET /billing/usage')).text.includes(`"current":${7 * MB}`), true)
  t.equal((await onDisk(opened.folder)).length, 7)
  const freed = responses.find(({ status }) => status === 201)?.body['id']
  t.equal((await user.upload([file('x')])).status, 402)
  await user.ask(`DELETE /files/${String(freed)}`)
  t.equal((await user.upload([file(Buffer.alloc(MB))])).status, 201, 'a deleted file frees its storage')
})

/** Sends the first half, and closes the connection. */
async function leave (user: User, bytes: Buffer): Promise<number> {
  const body = form([file(bytes)])
  const leaving = new AbortController()
  const half = new ReadableStream({
    pull (controller) {
      controller.enqueue(new Uint8Array(body.subarray(0, body.length / 2)))
      leaving.abort()
    }
  })
  const headers = { ...user.headers, 'content-type': `multipart/form-data; boundary=${boundary}` }
  await fetch(`${user.origin}/files/upload`, { method: 'POST', headers, body: half, duplex: 'half', signal: leaving.signal }).catch(
    () => {}
  )
  return 0
}

test('two servers share one storage limit, and its figures match the files', async (t) => {
  const folder = t.testdir()
  const servers = await testServers(t, { plans, files: { path: folder, buckets: { photos: { types: ['image/png'] } } } }, {
    engine: await postgresSection(t),
    tenants: [{ id: 'seven', plan: 'seven' }]
  })
  const users = await Promise.all(servers.map(async (app) => userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'seven' }))))
  const one = async (index: number): Promise<number> => {
    const user = users[index % 2]!
    const bytes = Buffer.alloc((index * 79_193) % (MB + MB / 4))
    const photos = { name: 'bucket', value: 'photos' }
    if (index % 5 === 0) return (await user.upload([file(bytes), photos])).status
    if (index % 7 === 0) return await leave(user, bytes)
    const response = await user.upload([file(bytes)])
    if (response.status === 201 && index % 3 === 0) await user.ask(`DELETE /files/${String(response.body['id'])}`)
    return response.status
  }
  const statuses = new Set(await Promise.all(Array.from({ length: 60 }, (_, index) => one(index))))
  for (const status of [201, 402, 413, 415]) t.ok(statuses.has(status), `some are ${status}`)
  const app = servers[0]
  await until(
    'no upload is running',
    async () => (await storage(app, 'seven')).reserved === 0 && Object.keys(await rows(app)).join() === 'ready'
  )
  const { rows: [sum] } = await sql<
    { bytes: number, count: number }
  >`select sum(size)::float8 as bytes, count(*)::integer as count from tenantry.files`.execute(app.db)
  t.same(await storage(app, 'seven'), { booked: sum?.bytes, reserved: 0, shown: sum?.bytes })
  t.ok((sum?.bytes ?? Infinity) <= 7 * MB)
  for (const user of users) {
    const { body: summary } = await user.ask('GET /usage/summary')
    t.match(JSON.stringify(summary), `"storage_bytes":${sum?.bytes}`)
    t.match((await user.ask('GET /billing/usage')).text, `"current":${sum?.bytes},`, 'the bill has the same figure')
  }
  t.same([await rows(app), (await onDisk(folder)).length], [{ ready: sum?.count }, sum?.count])
})
