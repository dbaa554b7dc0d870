/** Signed URLs, for uploads and downloads. */
import { Readable } from 'node:stream'
import { mock } from 'node:test'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { failure } from '../../../lib/errors.js'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { dayMs } from '../../../lib/time/spans.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { createRemoval } from '../../../plugins/files/removal.js'
import { createFileStore } from '../../../plugins/files/store.js'
import { testApp } from '../../helpers/app.js'
import { movableClock } from '../../helpers/clock.js'
import { gate } from '../../helpers/gate.js'
import { listen, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { postgresSection } from '../auth/app.js'
import { file, MB, onDisk, open, plans, rows, storage, type User, userOf } from './app.js'

const json = { 'content-type': 'application/json' }
const announce = (user: User, body: object) =>
  user.ask('POST /files/presign', { headers: json, body: JSON.stringify({ name: 'a.txt', contentType: 'text/plain', size: 5, ...body }) })

test('a name that no file can have is refused as the name of the announcement', async (t) => {
  const { as } = await open(t)
  for (const [name, keyword] of [['..', 'required'], ['a\0b', 'pattern'], ['a/'.repeat(9), 'required']] as const) {
    const response = await announce(as('acme'), { name })
    refused(t, response, 400, 'VALIDATION_FAILED')
    t.match(response.body.details, [{ path: '/body/name', keyword }])
  }
})

test('a signed URL opens only its file until its expiry, on every instance', async (t) => {
  const pass = movableClock(t)
  const folder = t.testdir()
  const servers = await testServers(t, { plans, files: { path: folder } }, {
    engine: await postgresSection(t),
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }]
  })
  const [one = '', other = ''] = await Promise.all(servers.map((app) => listen(app)))
  const ada = userOf(t, one, bearer({ sub: 'ada', tenant_id: 'acme' }))
  const stranger = userOf(t, other, {})
  const [first, second] = [await ada.upload([file('one')]), await ada.upload([file('two')])]
  const { status, body } = await ada.ask(`GET /files/signed-url/private/${String(first.body['key'])}?expiresIn=60`)
  t.equal(status, 200)
  const url = String(body['url'])
  t.equal((await stranger.ask(`GET ${url}`)).text, 'one', 'another server accepts it')
  t.equal((await stranger.ask(`GET ${url}&inline=1`)).headers['content-disposition'], 'inline; filename="a.txt"; filename*=UTF-8\'\'a.txt')
  const [path = '', query = ''] = url.split('?')
  const [, expires = '', signature = ''] = /expires=(\d+)&signature=(.+)/.exec(query) ?? []
  const changed = [
    `${String(second.body['url'])}?${query}`,
    `${path.replace('/private/', '/public/')}?${query}`,
    `${path.replace('/acme/', '/globex/')}?${query}`,
    `${path}?expires=${Number(expires) + 1}&signature=${signature}`,
    `${path}?expires=${expires}&signature=${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
    `${path}?expires=${expires}&signature=${signature.slice(0, -2)}`,
    `${path}?expires=${expires}&signature=`,
    `${path}?expires=${expires}`,
    `${path}?signature=${signature}`
  ]
  for (const target of changed) refused(t, await stranger.ask(`GET ${target}`), 403, 'URL_SIGNATURE_INVALID', target.slice(-40))
  refused(t, await ada.ask(`GET ${changed[3]}`), 403, 'URL_SIGNATURE_INVALID', 'a token does not replace it')
  refused(
    t,
    await stranger.ask(`PUT /files/${String(first.body['id'])}/content?tenant=acme&size=1&${query}`, { body: 'x' }),
    403,
    'URL_SIGNATURE_INVALID',
    'a download signature is not valid for an upload'
  )
  for (const expiresIn of ['0', '604801', 'a', '-1']) {
    refused(t, await ada.ask(`GET /files/signed-url/private/${String(first.body['key'])}?expiresIn=${expiresIn}`), 400, 'VALIDATION_FAILED')
  }
  pass(60_000)
  refused(t, await stranger.ask(`GET ${url}`), 403, 'URL_SIGNATURE_INVALID', 'it has expired')
  await ada.ask(`DELETE /files/${String(second.body['id'])}`)
})

test('bytes are sent to a signed URL, and the file exists once it is confirmed', async (t) => {
  const { app, as, folder, origin } = await open(t)
  const ada = as('acme')
  const stranger = userOf(t, origin, {})
  const response = await announce(ada, { entityType: 'notes', entityId: '1', metadata: { a: 1 } })
  t.equal(response.status, 201, response.text)
  const { id, method, url, headers } = response.body
  t.same([method, headers], ['PUT', { 'content-type': 'text/plain' }])
  t.same(await storage(app, 'acme'), { booked: 5, reserved: 0, shown: 5 })
  const confirm = () => ada.ask(`POST /files/${String(id)}/confirm`)
  refused(t, await confirm(), 409, 'STATE_CONFLICT', 'the bytes are missing')
  refused(t, await ada.ask(`GET /files/${String(id)}`), 404, 'NOT_FOUND')
  t.same((await ada.ask('GET /files/entity/notes/1')).body.data, [])
  for (const body of ['hell', 'hello!', '']) {
    refused(t, await stranger.ask(`PUT ${String(url)}`, { headers: json, body }), 400, 'BAD_REQUEST', `${body.length} bytes`)
  }
  refused(
    t,
    await stranger.ask(`PUT ${String(url).replace('tenant=acme', 'tenant=globex')}`, { body: 'hello' }),
    403,
    'URL_SIGNATURE_INVALID'
  )
  refused(t, await stranger.ask(`PUT ${String(url).replace(/.$/, '_')}`, { body: 'hello' }), 403, 'URL_SIGNATURE_INVALID')
  refused(
    t,
    await stranger.ask(`PUT ${String(url).replace('size=5', 'size=6')}`, { body: 'hello!' }),
    403,
    'URL_SIGNATURE_INVALID',
    'another size'
  )
  t.same(await onDisk(folder), [])
  t.same((await stranger.ask(`PUT ${String(url)}`, { headers: json, body: 'hello' })).body, { success: true })
  refused(t, await stranger.ask(`PUT ${String(url)}`, { body: 'HELLO' }), 409, 'STATE_CONFLICT', 'an object never changes')
  refused(t, await as('globex', { role: 'admin' }).ask(`POST /files/${String(id)}/confirm`), 404, 'NOT_FOUND')
  const [confirmed, again] = await Promise.all([confirm(), confirm()])
  t.match(confirmed.body, {
    id,
    name: 'a.txt',
    contentType: 'text/plain',
    size: 5,
    entityType: 'notes',
    metadata: { a: 1 },
    sha256: '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824'
  })
  t.same(again.body, confirmed.body)
  refused(t, await stranger.ask(`PUT ${String(url)}`, { body: 'HELLO' }), 409, 'STATE_CONFLICT')
  t.equal((await ada.ask(`GET ${String(confirmed.body['url'])}`)).text, 'hello')
  await ada.ask(`DELETE /files/${String(id)}`)
  t.same([await storage(app, 'acme'), await onDisk(folder), await rows(app)], [{ booked: 0, reserved: 0, shown: 0 }, [], {}])
})

test('a signed upload URL of a suspended tenant takes no bytes until the suspension ends', async (t) => {
  const { app, as, folder, origin } = await open(t)
  const stranger = userOf(t, origin, {})
  const { body: { id, url } } = await announce(as('acme'), {})
  const send = () => stranger.ask(`PUT ${String(url)}`, { headers: json, body: 'hello' })
  await app.tenants.update('acme', { status: 'suspended' })
  refused(t, await send(), 403, 'TENANT_SUSPENDED')
  refused(t, await stranger.ask(`PUT ${String(url).replace(/.$/, '_')}`, { body: 'hello' }), 403, 'URL_SIGNATURE_INVALID', 'to a stranger')
  t.same(await onDisk(folder), [])
  await app.tenants.update('acme', { status: 'active' })
  t.same((await send()).body, { success: true })
  t.match((await as('acme').ask(`POST /files/${String(id)}/confirm`)).body, { id, size: 5 })
})

test('a file that is confirmed before its upload has ended stays', async (t) => {
  const disk = createLocalStore(t.testdir())
  const [stored, mirrored] = [gate(), gate()]
  const store: ObjectStore = {
    ...disk,
    // Like the store `both`, which copies to S3 after the disk has the object.
    async put (key, bytes, type) {
      const size = await disk.put(key, bytes, type)
      stored.open()
      await mirrored.opened
      return size
    }
  }
  const { app } = await testApp(t, { plugins: { tenancy: {}, files: { store } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const { id, url } = (await announce(ada, {})).body
  const sent = ada.ask(`PUT ${String(url)}`, { body: 'hello' })
  await stored.opened
  const confirmed = await ada.ask(`POST /files/${String(id)}/confirm`)
  t.equal(confirmed.status, 200)
  mirrored.open()
  t.equal((await sent).status, 200)
  t.equal((await ada.ask(`GET ${String(confirmed.body['url'])}`)).text, 'hello')
})

test('the time of an upload to a signed URL is extended while it runs', async (t) => {
  const disk = createLocalStore(t.testdir())
  const [begun, released] = [gate(), gate()]
  const store: ObjectStore = {
    ...disk,
    async put (key, bytes, type) {
      begun.open()
      await released.opened
      return await disk.put(key, bytes, type)
    }
  }
  const { app } = await testApp(t, { plugins: { tenancy: {}, files: { store } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const { id, url, expiresAt } = (await announce(ada, {})).body
  const expiry = async () => (await app.db.selectFrom('tenantry.files').select('expires_at').executeTakeFirst())?.expires_at
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const sent = ada.ask(`PUT ${String(url)}`, { body: 'hello' })
  await begun.opened
  await sql`update tenantry.files set expires_at = now() + interval '5 minutes'`.execute(app.db)
  const first = await expiry()
  mock.timers.tick(60_000)
  await until('its time is extended', async () => Number(await expiry()) > Number(first))
  released.open()
  t.equal((await sent).status, 200)
  t.equal((await expiry())?.toISOString(), expiresAt, 'the time for the confirmation is that of the announcement')
  t.equal((await ada.ask(`POST /files/${String(id)}/confirm`)).status, 200)
})

/** A store that signs URLs, on the disk. */
async function openSigning (t: Test, own: (disk: ObjectStore) => Partial<ObjectStore>) {
  const disk = createLocalStore(t.testdir())
  const sign: ObjectStore['sign'] = async (key, { method }) => ({ method, url: `https://store.invalid/${key}`, headers: {} })
  const files = { buckets: { texts: { types: ['text/plain'] } }, store: { ...disk, sign, ...own(disk) } }
  const { app } = await testApp(t, { plugins: { tenancy: {}, files }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  return {
    ada,
    async announced () {
      const { id } = (await announce(ada, { bucket: 'texts' })).body
      return {
        send: (text: string) => disk.put(`acme/${String(id)}-upload`, Readable.from([Buffer.from(text)]), 'text/plain'),
        confirm: () => ada.ask(`POST /files/${String(id)}/confirm`)
      }
    }
  }
}

test('bytes that change between two confirmations do not replace those of the file', async (t) => {
  let gates = [gate(), gate()]
  let [reads, fails] = [0, false]
  const { ada, announced } = await openSigning(t, (disk) => ({
    async get (key, range) {
      const read = reads++
      const bytes = await disk.get(key, range)
      await gates[read]?.opened
      if (read !== 1 || !fails) return bytes
      bytes?.destroy()
      throw failure('storageUnavailable')
    }
  }))
  // The zero byte makes it a type that the bucket refuses.
  for (const [later, status] of [['hello', 200], ['HELLO', 200], ['\0ELLO', 200], ['HELLO', 503]] as const) {
    gates = [gate(), gate()]
    reads = 0
    fails = status === 503
    const { send, confirm } = await announced()
    await send('hello')
    const first = confirm()
    await until('the first reads its copy', () => reads === 1)
    await send(later)
    const second = confirm()
    await until('the second reads its copy', () => reads === 2)
    gates[0]?.open()
    const { status: one, body } = await first
    gates[1]?.open()
    const { status: two } = await second
    const read = await ada.ask(`GET ${String(body['url'])}`)
    t.same([one, two, read.status, read.text], [200, status, 200, 'hello'], JSON.stringify(later))
  }
})

test('a confirmation that fails after its copy can be repeated, and checks the same bytes', async (t) => {
  let reads = 0
  const { ada, announced } = await openSigning(t, (disk) => ({
    async get (key, range) {
      if (reads++ === 0) throw failure('storageUnavailable')
      return await disk.get(key, range)
    }
  }))
  const { send, confirm } = await announced()
  await send('hello')
  refused(t, await confirm(), 503, 'STORAGE_UNAVAILABLE')
  await send('HELLO')
  const { status, body } = await confirm()
  t.equal(status, 200)
  t.equal((await ada.ask(`GET ${String(body['url'])}`)).text, 'hello')
})

test('a confirmation is refused while another one copies the bytes', async (t) => {
  const [begun, copied] = [gate(), gate()]
  const { announced } = await openSigning(t, (disk) => ({
    async copy (from, to) {
      begun.open()
      await copied.opened
      return await disk.copy(from, to)
    }
  }))
  const { send, confirm } = await announced()
  await send('hello')
  const first = confirm()
  await begun.opened
  refused(t, await confirm(), 409, 'STATE_CONFLICT')
  copied.open()
  t.equal((await first).status, 200)
  t.equal((await confirm()).status, 200)
})

test('bytes are not copied again after a copy that failed, since that copy may still end', async (t) => {
  let copies = 0
  let end = async () => false
  const { ada, announced } = await openSigning(t, (disk) => ({
    async copy (from, to) {
      copies++
      end = () => disk.copy(from, to)
      throw failure('storageUnavailable')
    }
  }))
  const { send, confirm } = await announced()
  await send('hello')
  refused(t, await confirm(), 503, 'STORAGE_UNAVAILABLE')
  refused(t, await confirm(), 409, 'STATE_CONFLICT')
  t.equal(copies, 1)
  await end()
  const { status, body } = await confirm()
  t.same([status, copies], [200, 1])
  t.equal((await ada.ask(`GET ${String(body['url'])}`)).text, 'hello')
})

test('bytes that the URL of a store accepts after the deletion of its file are removed', async (t) => {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  const store: ObjectStore = { ...disk, sign: async (key, { method }) => ({ method, url: `https://store.invalid/${key}`, headers: {} }) }
  const { app } = await testApp(t, { engine: { provider: 'embedded' }, plugins: { tenancy: {}, files: { store } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const { id } = (await announce(ada, {})).body
  const send = () => disk.put(`acme/${String(id)}-upload`, Readable.from([Buffer.from('hello')]), 'text/plain')
  await send()
  t.equal((await ada.ask(`POST /files/${String(id)}/confirm`)).status, 200)
  t.equal((await ada.ask(`DELETE /files/${String(id)}`)).status, 200)
  t.same(await onDisk(folder), [])
  await send()
  const dbFor = (tenant: string) => app.engine.kyselyFor(tenantRef(tenant))
  const sweep = (ms: number) =>
    createRemoval({
      objects: disk,
      store: createFileStore(app.db, dbFor),
      parts: createFileParts(disk, dbFor),
      transforms: { deleteObjects: async () => {} },
      dbFor,
      usage: () => null,
      emitter: () => null,
      now: () => Date.now() + ms,
      log: app.log
    }).sweep()
  await sweep(0)
  t.same(await rows(app), { removed: 1 }, 'the URL may bring them again')
  await sweep(2 * dayMs)
  t.same([await onDisk(folder), await rows(app)], [[], {}])
})

test('a name in an announcement loses its folders, and a type that no header can have is refused', async (t) => {
  const { as } = await open(t)
  const ada = as('acme')
  const { body: { id, url } } = await announce(ada, { name: '../../etc/pass\\wd.txt' })
  await ada.ask(`PUT ${String(url)}`, { body: 'hello' })
  t.match((await ada.ask(`POST /files/${String(id)}/confirm`)).body, { name: 'wd.txt' })
  refused(t, await announce(ada, { name: 'a/..' }), 400, 'VALIDATION_FAILED')
  for (const contentType of ['text', 'text/html\r\nx: y', 'text/ä', 'text/html; a=\u0000', '']) {
    refused(t, await announce(ada, { contentType }), 400, 'VALIDATION_FAILED', JSON.stringify(contentType))
  }
  t.equal((await announce(ada, { contentType: 'text/html; charset="utf-8"' })).status, 201)
})

test("announcements respect the limits, and their bytes the bucket's types", async (t) => {
  const { app, as, folder, origin } = await open(t, { files: { buckets: { photos: { types: ['image/png'] } } } })
  const seven = as('seven')
  refused(t, await announce(seven, { size: MB + 1 }), 413, 'FILE_TOO_LARGE')
  const responses = await Promise.all(Array.from({ length: 20 }, () => announce(seven, { size: MB })))
  t.same(responses.map(({ status }) => status).sort(), [...Array<number>(7).fill(201), ...Array<number>(13).fill(402)])
  t.same(await storage(app, 'seven'), { booked: 7 * MB, reserved: 0, shown: 7 * MB })
  const ada = as('acme')
  for (
    const body of [
      { size: 0 },
      { size: 1.5 },
      { name: 'n'.repeat(256) },
      { name: 'a\u0000b' },
      { name: '' },
      { bucket: 'attic' },
      { entityType: 'x' },
      { metadata: { a: 'x'.repeat(8200) } },
      { metadata: [] },
      { public: true }
    ]
  ) {
    refused(t, await announce(ada, body), 400, 'VALIDATION_FAILED', JSON.stringify(body).slice(0, 40))
  }
  refused(t, await announce(ada, { bucket: 'photos' }), 415, 'FILE_TYPE_REFUSED')
  const lie = await announce(ada, { bucket: 'photos', contentType: 'Image/PNG; a=b' })
  t.equal((await userOf(t, origin, {}).ask(`PUT ${String(lie.body['url'])}`, { body: 'hello' })).status, 200)
  refused(t, await ada.ask(`POST /files/${String(lie.body['id'])}/confirm`), 415, 'FILE_TYPE_REFUSED')
  refused(t, await ada.ask(`POST /files/${String(lie.body['id'])}/confirm`), 404, 'NOT_FOUND')
  t.same([await storage(app, 'acme'), await onDisk(folder)], [{ booked: 0, reserved: 0, shown: 0 }, []])
})

test('an expired announcement cannot be confirmed, even if its bytes arrived', async (t) => {
  const { app, as, origin } = await open(t)
  const ada = as('acme')
  const { body: { id, url, expiresAt } } = await announce(ada, {})
  t.equal((await userOf(t, origin, {}).ask(`PUT ${String(url)}`, { body: 'hello' })).status, 200)
  const { rows: [row] } = await sql<{ expires: Date }>`select expires_at as expires from tenantry.files`.execute(app.db)
  t.equal(row?.expires.toISOString(), expiresAt, 'the bytes do not extend it')
  await sql`update tenantry.files set expires_at = now()`.execute(app.db)
  refused(t, await ada.ask(`POST /files/${String(id)}/confirm`), 404, 'NOT_FOUND')
  refused(t, await ada.ask(`GET /files/${String(id)}`), 404, 'NOT_FOUND')
})
