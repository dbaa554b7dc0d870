/** Files in quarantine: with a real scanner, without it, and with malware. */
import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import { mock } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { deflateSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { isRecord } from '../../../lib/json/plain-value.js'
import type { FileScan } from '../../../plugins/files/types.js'
import { malware, startClamd } from '../../helpers/clamd.js'
import { freePort } from '../../helpers/free-port.js'
import { startInstance } from '../../helpers/instances.js'
import type { DatabaseSection } from '../../helpers/postgres.js'
import { listen, type TestDocument, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { postgresSection } from '../auth/app.js'
import { file, form, formHeaders, MB, onDisk, open, plans, rows, storage, type User, userOf } from './app.js'

const json = { 'content-type': 'application/json' }
const tenants = [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }]
const waiting = { status: 'waiting', signature: null }
const infected = { status: 'infected', signature: /^Tenantry\.Test/ }

const scanOf = async (admin: User, id: unknown): Promise<Partial<FileScan>> => {
  const { body: { scan } } = await admin.ask(`GET /files/${String(id)}`)
  return isRecord(scan) ? scan : {}
}
const health = async (user: User): Promise<unknown> => {
  const { body: { status, checks } } = await user.ask('GET /health')
  return isRecord(checks) ? [status, checks['scan']] : []
}
const events = async (app: FastifyInstance): Promise<string[]> => {
  const { rows } = await sql<{ event: string }>`select type || ' ' || subject as event from tenantry.webhook_events order by place`.execute(
    app.db
  )
  return rows.map(({ event }) => event)
}
/** Makes failed scans due again at once. */
const dueNow = (app: FastifyInstance) => sql`update tenantry.files set scan_at = now() where scan_at is not null`.execute(app.db)

test('a clean file becomes readable with its event; malware stays, and only administrators read it', async (t) => {
  const clamd = await startClamd(t)
  const { app, as, origin } = await open(t, {
    files: { scan: { clamd: `${clamd.host}:${clamd.port}` } },
    webhooks: [{ name: 'all', url: 'http://127.0.0.1:9/hook', events: ['file.*'] }]
  })
  const [ada, admin, stranger] = [as('acme'), as('acme', { sub: 'root', role: 'admin' }), userOf(t, origin, {})]
  t.match((await stranger.ask('GET /health')).body, { status: 'ok', checks: { scan: 'ok' } })
  const clean = await ada.upload([file('harmless'), { name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }])
  t.match([clean.status, clean.body], [201, { scan: waiting }])
  const bad = await ada.upload([file(`${'x'.repeat(100_000)}${malware}`), { name: 'public', value: 'true' }, {
    name: 'entityType',
    value: 'notes'
  }, { name: 'entityId', value: '1' }])
  await until(
    'both are scanned',
    async () =>
      (await ada.ask(`GET /files/${String(clean.body['id'])}`)).status === 200 &&
      (await scanOf(admin, bad.body['id'])).status === 'infected'
  )
  t.notOk('scan' in (await ada.ask(`GET /files/${String(clean.body['id'])}`)).body)
  t.equal((await ada.ask(`GET ${String(clean.body['url'])}`)).text, 'harmless')
  t.same(await events(app), [`file.created files:${String(clean.body['id'])}`])

  const { id, url, key } = bad.body
  const name = `GET ${String(url)}`
  const paths = [
    `GET /files/${String(id)}`,
    name,
    `HEAD ${String(url)}`,
    `${name}?width=10`,
    `GET /files/signed-url/public/${String(key)}`,
    `DELETE /files/${String(id)}`
  ]
  for (const user of [ada, as('globex', { role: 'admin' })]) for (const path of paths) t.equal((await user.ask(path)).status, 404, path)
  for (const path of [name, `${name}?inline=1`]) refused(t, await stranger.ask(path), 404, 'NOT_FOUND')
  t.match((await ada.ask('GET /files/entity/notes/1')).body, { data: [{ id: clean.body['id'] }], pagination: { total: 1 } })
  t.equal(await app.files.get('acme', String(id)), null)
  t.equal(await app.files.open('acme', String(id)), null)

  t.match(await admin.ask(`GET /files/${String(id)}`), { status: 200, body: { scan: infected } })
  t.match((await admin.ask('GET /files/entity/notes/1')).body, {
    data: [{ id: clean.body['id'] }, { id, scan: infected }],
    pagination: { total: 2 }
  })
  t.match((await admin.ask(`${name}?inline=1`)).headers, { 'content-disposition': /^attachment/, 'cache-control': 'private, no-cache' })
  t.match(
    await userOf(t, origin, bearer({ sub: 'operator', role: 'admin' })).ask(name),
    { status: 200 },
    'a platform administrator'
  )
  refused(t, await admin.ask(`GET /files/signed-url/public/${String(key)}`), 409, 'STATE_CONFLICT', 'a URL would be for everyone')
  refused(t, await admin.ask(`${name}?width=10`), 409, 'STATE_CONFLICT')
  const { rows: audited } = await sql`select action, target, details from tenantry.audit_log where action = 'file.infected'`.execute(app.db)
  t.match(audited, [{ target: id, details: { name: 'a.txt', ...infected, status: undefined } }])
  t.equal((await admin.ask(`DELETE /files/${String(id)}`)).status, 200)
  t.same(await rows(app), { ready: 1 })
  t.same(await storage(app, 'acme'), { booked: 8, reserved: 0, shown: 8 })
  t.equal((await events(app)).length, 1, 'no deletion event without a creation event')
})

test('files of every kind of upload wait while the scanner is down, and are scanned when it is back', async (t) => {
  const port = await freePort()
  const { app, as } = await open(t, {
    files: { scan: { clamd: `127.0.0.1:${port}` } },
    routes: [{
      path: '/pages',
      method: 'post',
      requireAuth: true,
      multipart: true,
      request: { files: { page: {} } },
      response: { id: '{{files.page.id}}' }
    }]
  })
  const [ada, admin] = [as('acme'), as('acme', { sub: 'root', role: 'admin' })]
  const posted = await ada.upload([file('a form')])
  const routed = await ada.ask('POST /pages', { headers: formHeaders, body: form([{ ...file('route'), name: 'page' }]) })
  t.equal(routed.status, 200, routed.text)
  const announced = await ada.ask('POST /files/presign', {
    headers: json,
    body: JSON.stringify({ name: 'b', contentType: 'text/plain', size: 5 })
  })
  await ada.ask(`PUT ${String(announced.body['url'])}`, { body: 'bytes' })
  const confirm = () => ada.ask(`POST /files/${String(announced.body['id'])}/confirm`)
  t.match(await confirm(), { status: 200, body: { scan: waiting } })
  t.match(await confirm(), { status: 200, body: { scan: waiting } }, 'it can be repeated')
  refused(t, await as('acme', { sub: 'other' }).ask(`POST /files/${String(announced.body['id'])}/confirm`), 404, 'NOT_FOUND')
  const tus = await ada.ask('POST /files/resumable', {
    headers: {
      'tus-resumable': '1.0.0',
      'upload-length': '3',
      'upload-metadata': `filename ${btoa('c')}`,
      'content-type': 'application/offset+octet-stream'
    },
    body: 'tus'
  })
  t.equal(tus.status, 201, tus.text)
  const resumed = String(tus.headers['location']).split('/').at(-1)
  t.match((await ada.ask(`HEAD /files/resumable/${resumed}`, { headers: { 'tus-resumable': '1.0.0' } })).headers, { 'upload-offset': '3' })
  const put = await app.files.put('acme', { name: 'd' }, Readable.from([Buffer.from('put')]), {
    sub: 'ada',
    actor: { userId: 'ada', address: null }
  })
  t.match(put, { scan: waiting })
  const ids = [posted.body['id'], routed.body['id'], announced.body['id'], resumed, put.id]
  t.same(await rows(app), { quarantined: 5 })
  for (const id of ids) {
    refused(t, await ada.ask(`GET /files/${String(id)}`), 404, 'NOT_FOUND')
    t.same(await scanOf(admin, id), waiting)
  }
  t.same((await storage(app, 'acme')).shown, 22)
  await until('health reports it', async () => {
    const { status } = await ada.ask('GET /health')
    return status === 200 && isDeepStrictEqual(await health(ada), ['degraded', 'failed'])
  })
  await startClamd(t, port)
  await dueNow(app)
  await until('the quarantine is empty', async () => (await rows(app))['ready'] === 5)
  for (const id of ids) t.equal((await ada.ask(`GET /files/${String(id)}`)).status, 200)
  await until('health is ok', async () => (await ada.ask('GET /health')).body['status'] === 'ok')
})

test('a server whose clock is wrong delays no scans', async (t) => {
  t.teardown(() => mock.timers.reset())
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 120_000 })
  const { app, as } = await open(t, { files: { scan: { clamd: `127.0.0.1:${await freePort()}` } } })
  const due = async () =>
    (await sql<{ seconds: number }>`select extract(epoch from scan_at - now())::float8 as seconds from tenantry.files`.execute(app.db)).rows[0]?.seconds ?? NaN
  t.equal((await as('acme').upload([file('harmless')])).status, 201)
  await until('the scan has failed', async () => await due() > 0)
  t.ok(await due() <= 30, `the next one is in ${await due()} s`)
})

test("a file over the scanner's limit stays in quarantine, with the reason", async (t) => {
  const clamd = await startClamd(t, undefined, 1)
  const { app, as } = await open(t, { files: { scan: { clamd: `127.0.0.1:${clamd.port}` } } })
  const { body } = await as('acme').upload([file(Buffer.alloc(3 * MB))])
  const admin = as('acme', { role: 'admin' })
  await until('the verdict is stored', async () => {
    await dueNow(app)
    return (await scanOf(admin, body['id'])).status === 'tooLarge'
  })
  t.same([await rows(app), await health(admin)], [{ quarantined: 1 }, ['ok', 'ok']])
})

/** Text that takes the scanner a while. */
const slow = (length: number) => deflateSync(Buffer.alloc(length, 'a'))

test("one tenant's flood does not delay another tenant's file", async (t) => {
  const port = await freePort()
  const { app, as } = await open(t, { files: { scan: { clamd: `127.0.0.1:${port}` } } })
  const flood = as('acme')
  for (let at = 0; at < 5; at++) await Promise.all(Array.from({ length: 20 }, () => flood.upload([file(slow(MB))])))
  t.same(await rows(app), { quarantined: 100 })
  const { body } = await as('globex').upload([file('alone')])
  await startClamd(t, port)
  await dueNow(app)
  let left = 0
  await until('the file is scanned', async () => {
    const isThere = (await as('globex').ask(`GET /files/${String(body['id'])}`)).status === 200
    left = (await rows(app))['quarantined'] ?? 0
    return isThere
  })
  t.ok(left > 0, `${left} files of the flood still wait`)
  await until('the flood is scanned', async () => (await rows(app))['ready'] === 101)
})

test('two instances scan each file once, and one takes over the scan of a killed one', async (t) => {
  const clamd = await startClamd(t)
  const engine = await postgresSection(t)
  const document = {
    plans,
    files: { path: t.testdir(), scan: { clamd: `127.0.0.1:${clamd.port}` } },
    webhooks: [{ name: 'all', url: 'http://127.0.0.1:9/hook', events: ['file.created' as const] }]
  }
  const [app, second] = await testServers(t, document, { engine, tenants })
  const users = await Promise.all(
    [app, second].map(async (server) => userOf(t, await listen(server), bearer({ sub: 'ada', tenant_id: 'acme' })))
  )
  await Promise.all(users.flatMap((user) => Array.from({ length: 20 }, () => user.upload([file('x')]))))
  await until('all are scanned', async () => (await rows(app))['ready'] === 40)
  t.equal((await events(app)).length, 40, 'each has one event')
  await clamd.stop()

  await killedInTheMiddle(t, app, clamd.port, document, engine)
  t.equal((await events(app)).length, 41)
})

/** An instance is killed while the scanner has half of a file, which another instance scans later. */
async function killedInTheMiddle (
  t: Test,
  app: FastifyInstance,
  port: number,
  document: TestDocument,
  engine: DatabaseSection
): Promise<void> {
  // A scanner that accepts connections and never responds.
  let scans = 0
  const silent = createServer((socket) => {
    socket.on('error', () => {}).on('data', (chunk) => {
      if (chunk.includes('INSTREAM')) scans++
    })
  })
  const address = await new Promise<number>((resolve) =>
    silent.listen(0, '127.0.0.1', () => {
      const found = silent.address()
      resolve(typeof found === 'object' && found !== null ? found.port : 0)
    })
  )
  t.teardown(() => {
    silent.close()
  })
  const killed = await startInstance(t, { ...document, files: { ...document.files, scan: { clamd: `127.0.0.1:${address}` } } }, engine)
  const user = userOf(t, killed.address, bearer({ sub: 'ada', tenant_id: 'globex' }))
  const { body } = await user.upload([file('half')])
  await until('its scan is running', async () => scans > 0)
  await killed.stop('SIGKILL')
  t.equal((await rows(app))['quarantined'], 1)
  const { rows: [claim] } = await sql<
    { seconds: number }
  >`select extract(epoch from scan_at - now())::float8 as seconds from tenantry.files where status = 'quarantined'`.execute(app.db)
  t.ok(claim !== undefined && claim.seconds > 0 && claim.seconds <= 30, 'the claim expires within 30 seconds')
  await startClamd(t, port)
  await dueNow(app)
  await until('another instance scans it', async () => await app.files.get('globex', String(body['id'])) !== null)
}

test('a file can be deleted, and the server closed, during a scan', async (t) => {
  const clamd = await startClamd(t)
  const { app, as, folder } = await open(t, { files: { scan: { clamd: `127.0.0.1:${clamd.port}` } } })
  const admin = as('acme', { role: 'admin' })
  for (let run = 0; run < 5; run++) {
    const { body } = await admin.upload([file(slow(8 * MB))])
    t.equal((await admin.ask(`DELETE /files/${String(body['id'])}`)).status, 200)
  }
  await until('nothing remains', async () => (await onDisk(folder)).length === 0 && Object.keys(await rows(app)).length === 0)
  await admin.upload([file(slow(8 * MB))])
})
