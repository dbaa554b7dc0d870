/** Resumable uploads, by the tus project's client and by hand. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import * as tus from 'tus-js-client'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { gate } from '../../helpers/gate.js'
import { listen, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { postgresSection } from '../auth/app.js'
import { half, MB, onDisk, open, plans, rows, storage, type User, userOf } from './app.js'
import { announce, octets, offsetOf, removalOf, send, urlOf, version } from './tus.js'

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** Uploads with the client until it is done, or until the given number of bytes were sent. */
async function upload (
  bytes: Buffer,
  { user, url, stopAt = Infinity }: { readonly user: User, readonly url?: string, readonly stopAt?: number }
): Promise<string> {
  return await new Promise((resolve, reject) => {
    const client = new tus.Upload(bytes, {
      endpoint: `${user.origin}/files/resumable`,
      ...url !== undefined && { uploadUrl: user.origin + url },
      headers: user.headers,
      metadata: { filename: 'large.bin', filetype: 'application/octet-stream', entityType: 'notes', entityId: '7' },
      chunkSize: MB,
      retryDelays: null,
      onError: reject,
      onSuccess: () => resolve(new URL(client.url ?? '').pathname),
      onChunkComplete: (_size, sent) => {
        if (sent < stopAt) return
        client.abort().catch(reject)
        resolve(new URL(client.url ?? '').pathname)
      }
    })
    client.start()
  })
}

/** A user at two servers with the same files. */
async function openTwo (t: Test) {
  const folder = t.testdir()
  const servers = await testServers(t, { plans, files: { path: folder } }, {
    engine: await postgresSection(t),
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }]
  })
  const [one, other] = (await Promise.all(servers.map((app) => listen(app)))).map((origin) =>
    userOf(t, origin, bearer({ sub: 'ada', tenant_id: 'acme' }))
  )
  const [app] = servers
  if (one === undefined || other === undefined) throw new Error('there are two servers')
  return { app, one, other, folder }
}

test('an interrupted upload is resumed on another instance', async (t) => {
  const { app, one, other, folder } = await openTwo(t)
  const bytes = randomBytes(5 * MB + 7)
  const url = await upload(bytes, { user: one, stopAt: 2 * MB })
  const offset = Number(await offsetOf(other, url))
  t.ok(offset >= 2 * MB && offset < bytes.length, `${offset} bytes were kept`)
  t.same(
    await storage(app, 'acme'),
    { booked: bytes.length, reserved: 0, shown: bytes.length },
    'the storage is booked from the announcement on'
  )
  refused(t, await one.ask(`GET ${url.replace('/resumable', '')}`), 404, 'NOT_FOUND', 'not readable yet')

  t.equal(await upload(bytes, { user: other, url }), url)
  const { status, body } = await one.ask(`GET ${url.replace('/resumable', '')}`)
  t.equal(status, 200)
  t.match(body, {
    name: 'large.bin',
    size: bytes.length,
    sha256: sha256(bytes),
    entityType: 'notes',
    entityId: '7',
    bucket: 'private',
    createdBy: 'ada'
  })
  t.equal(sha256((await one.ask(`GET ${String(body['url'])}`)).bytes), sha256(bytes))
  t.equal((await onDisk(folder)).length, 1, 'the parts are gone')
  t.same(await storage(app, 'acme'), { booked: bytes.length, reserved: 0, shown: bytes.length })
  t.equal(await offsetOf(one, url), String(bytes.length), 'a complete upload has its offset')
})

test('the bytes of an interrupted request are kept', async (t) => {
  const { as, origin, folder } = await open(t)
  const ada = as('acme')
  const url = urlOf(await announce(ada, 10))
  const request = httpRequest(origin + url, {
    method: 'PATCH',
    headers: { ...ada.headers, ...octets, 'upload-offset': '0', 'content-length': '10' }
  })
  request.on('error', () => {})
  request.write('hello')
  const [socket] = await once(request, 'socket')
  await new Promise((resolve) => {
    socket.write('', resolve)
  })
  while ((await onDisk(folder)).length === 0) await new Promise(setImmediate)
  request.destroy()
  let offset = ''
  while (offset !== '5') offset = await offsetOf(ada, url)
  t.equal((await send(ada, url, 5, 'world')).status, 204)
  t.equal((await ada.ask(`GET ${url.replace('/resumable', '')}`)).body['size'], 10)
})

test('the parts of an upload whose id is sent in capital letters are joined and removed', async (t) => {
  const { as, folder } = await open(t)
  const ada = as('acme')
  const [first, second] = [urlOf(await announce(ada, 10)), urlOf(await announce(ada, 10))]
  const inCapitals = (url: string) => url.replace(/[^/]+$/, (id) => id.toUpperCase())
  t.equal((await send(ada, inCapitals(first), 0, 'hello')).status, 204)
  t.equal((await send(ada, first, 5, 'world')).status, 204)
  t.equal((await ada.ask(`GET ${first.replace('/resumable', '')}`)).body['size'], 10)
  t.equal((await send(ada, inCapitals(second), 0, 'hello')).status, 204)
  t.equal((await ada.ask(`DELETE ${second}`, { headers: version })).status, 204)
  t.equal((await ada.ask(`DELETE ${first.replace('/resumable', '')}`)).status, 200)
  t.same(await onDisk(folder), [])
})

test("other users' uploads, wrong offsets and wrong sizes are rejected", async (t) => {
  const { app, as, folder } = await open(t)
  const [ada, bob, eve] = [as('acme'), as('acme', { sub: 'bob' }), as('globex')]
  const announced = await announce(ada, 10)
  const { status, headers } = announced
  const url = urlOf(announced)
  t.equal(status, 201)
  t.match(headers, { 'tus-resumable': '1.0.0', 'upload-expires': / GMT$/ })
  t.match(url, /^\/files\/resumable\/[0-9a-f-]{36}$/)
  for (const stranger of [bob, eve]) {
    refused(t, await send(stranger, url, 0, 'hello'), 404, 'NOT_FOUND')
    t.equal((await stranger.ask(`HEAD ${url}`, { headers: version })).status, 404)
    refused(t, await stranger.ask(`DELETE ${url}`, { headers: version }), 404, 'NOT_FOUND')
  }
  refused(
    t,
    await ada.ask('POST /files/resumable', { headers: { 'upload-length': '5' } }),
    412,
    'PRECONDITION_FAILED',
    'without the protocol version'
  )
  refused(t, await ada.ask('POST /files/resumable', { headers: { ...version, 'upload-length': '-5' } }), 400, 'BAD_REQUEST')
  refused(t, await ada.ask('POST /files/resumable', { headers: version }), 400, 'BAD_REQUEST', 'without a size')
  const extensions: Record<string, string>[] = [{ 'upload-defer-length': '1' }, { 'upload-length': '5', 'upload-concat': 'partial' }]
  for (const extension of extensions) {
    const response = await ada.ask('POST /files/resumable', {
      headers: { ...version, ...extension, 'upload-metadata': `filename ${Buffer.from('a').toString('base64')}` }
    })
    refused(t, response, 400, 'BAD_REQUEST', 'an extension that this server lacks')
  }
  refused(t, await announce(ada, 5, { filetype: 'text/plain' }), 400, 'VALIDATION_FAILED', 'without a name')
  refused(t, await announce(ada, 5, { filename: '\0' }), 400, 'VALIDATION_FAILED')
  refused(t, await announce(ada, 5, { filename: 'a', bucket: 'none' }), 400, 'VALIDATION_FAILED')
  refused(t, await send(ada, url, 3, 'hello'), 409, 'STATE_CONFLICT', 'another offset')
  t.equal((await send(ada, url, 0, 'hello world')).status, 413, 'more than was announced')
  t.equal(await offsetOf(ada, url), '0')

  const both = await Promise.all([send(ada, url, 0, 'hello'), send(ada, url, 0, 'HELLO')])
  t.ok(both.some(({ status }) => status === 204))
  t.ok(both.every(({ status }) => status === 204 || status === 409), both.map(({ status }) => status).join())
  t.equal(await offsetOf(ada, url), '5')
  t.equal((await ada.ask(`DELETE ${url}`, { headers: version })).status, 204)
  refused(t, await send(ada, url, 5, 'world'), 404, 'NOT_FOUND')
  t.same(
    [await onDisk(folder), await rows(app), await storage(app, 'acme')],
    [[], {}, { booked: 0, reserved: 0, shown: 0 }],
    'nothing remains'
  )
  t.equal((await ada.ask('OPTIONS /files/resumable')).headers['tus-version'], '1.0.0')
})

test('limits apply from the announcement on, and expired uploads are removed', async (t) => {
  const { app, as, folder } = await open(t, { files: { buckets: { pictures: { types: ['image/*'] } } } })
  const user = as('seven')
  t.equal((await announce(user, MB + 1)).status, 413)
  const announced = await Promise.all(Array.from({ length: 10 }, () => announce(user, MB)))
  t.same(announced.map(({ status }) => status).sort(), [...Array(7).fill(201), ...Array(3).fill(402)])
  t.same(await storage(app, 'seven'), { booked: 7 * MB, reserved: 0, shown: 7 * MB })
  const [first] = announced.filter(({ status }) => status === 201)
  if (first !== undefined) await send(user, urlOf(first), 0, 'hello')
  t.equal((await onDisk(folder)).length, 1)

  await sql`update tenantry.files set expires_at = now() - interval '1 second'`.execute(app.db)
  await removalOf(app, createLocalStore(folder)).removal.sweep()
  t.same([await onDisk(folder), await rows(app), await storage(app, 'seven')], [[], {}, { booked: 0, reserved: 0, shown: 0 }])

  const ada = as('acme')
  const liar = urlOf(await announce(ada, 5, { filename: 'a.png', filetype: 'image/png', bucket: 'pictures' }))
  refused(t, await send(ada, liar, 0, 'hello'), 415, 'FILE_TYPE_REFUSED', 'its bytes are not an image')
  t.same([await onDisk(folder), await storage(app, 'acme')], [[], { booked: 0, reserved: 0, shown: 0 }])
  const empty = await announce(ada, 0)
  t.equal(empty.status, 201)
  t.equal((await ada.ask(`GET ${urlOf(empty).replace('/resumable', '')}`)).body['size'], 0)
})

/** Begins as many uploads as a tenant may run at a time. Each function sends the rest of one. */
async function runAll (user: User, { db }: FastifyInstance): Promise<readonly (() => Promise<number>)[]> {
  const waiting = await Promise.all(Array.from({ length: 100 }, () => announce(user, 10)))
  const rests = await Promise.all(
    waiting.map((response) => half(user, 'PATCH', urlOf(response), Buffer.from('helloworld'), { ...octets, 'upload-offset': '0' }))
  )
  await until('the tenant has the maximum of uploads', async () => {
    const { rows } = await sql`select from tenantry.file_parts where size is null`.execute(db)
    return rows.length === 100
  })
  return rests
}

test('requests of resumable uploads count as uploads that run at a time', async (t) => {
  const { app, as } = await open(t)
  const ada = as('acme')
  const url = urlOf(await announce(ada, 10))
  const rests = await runAll(ada, app)
  refused(t, await send(ada, url, 0, 'hello'), 429, 'UPLOADS_BUSY')
  t.equal(await offsetOf(ada, url), '0', 'offsets can be read meanwhile')
  t.same(new Set(await Promise.all(rests.map((rest) => rest()))), new Set([204]))
  t.equal((await send(ada, url, 0, 'hello')).status, 204)
})

test('HEAD of a complete upload that is no file yet counts as an upload', async (t) => {
  const { app, as, folder } = await open(t)
  const ada = as('acme')
  const url = urlOf(await announce(ada, 5))
  const id = url.split('/').at(-1) ?? ''
  const parts = createFileParts(createLocalStore(folder), (tenant) => app.engine.kyselyFor(tenant))
  await parts.add(tenantRef('acme'), id, 0, Readable.from([Buffer.from('hello')]))
  const rests = await runAll(ada, app)
  const head = () => ada.ask(`HEAD ${url}`, { headers: version })
  t.equal((await head()).status, 429)
  refused(t, await ada.ask(`GET /files/${id}`), 404, 'NOT_FOUND')
  t.same(new Set(await Promise.all(rests.map((rest) => rest()))), new Set([204]))
  t.match(await head(), { status: 200, headers: { 'upload-offset': '5' } })
  t.equal((await ada.ask(`GET /files/${id}`)).body['size'], 5)
})

test('few requests wait for an upload whose request sends no bytes', async (t) => {
  const { app, as } = await open(t)
  const ada = as('acme')
  const url = urlOf(await announce(ada, 1000))
  const idle = httpRequest(ada.origin + url, {
    method: 'PATCH',
    headers: { ...ada.headers, ...octets, 'upload-offset': '0', 'content-length': '1000' }
  })
  idle.on('error', () => {}).flushHeaders()
  await until('the request holds the lock', async () => {
    const { rows } = await sql`select from tenantry.file_parts`.execute(app.db)
    return rows.length === 1
  })
  const heads = await Promise.all(Array.from({ length: 40 }, () => ada.ask(`HEAD ${url}`, { headers: version })))
  const statuses = heads.map(({ status }) => status)
  t.same([...new Set(statuses)].sort(), [200, 409])
  idle.destroy()
  t.equal(await offsetOf(ada, url), '0')
})

for (const moment of ['before', 'during']) {
  test(`a part whose bytes begin ${moment} the removal of its upload leaves no object`, async (t) => {
    const { app, as, folder } = await open(t)
    const disk = createLocalStore(folder)
    const [storing, stored, deleted, removing] = [gate(), gate(), gate(), gate()]
    let deletes = 0
    const objects: ObjectStore = {
      ...disk,
      async put (...part) {
        storing.open()
        await stored.opened
        return await disk.put(...part)
      },
      async delete (key) {
        await disk.delete(key)
        if (deletes++ > 0) return
        deleted.open()
        await removing.opened
      }
    }
    const { parts, removal } = removalOf(app, objects)
    const id = urlOf(await announce(as('acme'), 10)).split('/').at(-1) ?? ''
    const add = async () => {
      const added = parts.add(tenantRef('acme'), id, 0, Readable.from([Buffer.from('hello')]))
      await Promise.race([storing.opened, added])
      return { added }
    }
    const early = moment === 'before' ? await add() : null
    const removed = removal.drop(tenantRef('acme'), id, ['resumable'])
    await deleted.opened
    const { added } = early ?? await add()
    stored.open()
    await t.rejects(added, { code: 'TENANTRY_STATE_CONFLICT' })
    removing.open()
    await removed
    t.same([await onDisk(folder), await rows(app)], [[], {}])
  })
}

test('bytes that arrive while another server cancels their upload leave no object', async (t) => {
  const { app, one, other, folder } = await openTwo(t)
  const url = urlOf(await announce(one, 10))
  const rest = await half(one, 'PATCH', url, Buffer.from('helloworld'), { ...octets, 'upload-offset': '0' })
  await until('the bytes are being stored', async () => (await onDisk(folder)).length === 1)
  t.equal((await other.ask(`DELETE ${url}`, { headers: version })).status, 204)
  t.equal(await rest(), 409)
  t.same([await onDisk(folder), await rows(app), await storage(app, 'acme')], [[], {}, { booked: 0, reserved: 0, shown: 0 }])
})

test('bytes that arrive after another server has completed their upload leave no object', async (t) => {
  const { one, other, folder } = await openTwo(t)
  const url = urlOf(await announce(one, 10))
  const rest = await half(one, 'PATCH', url, Buffer.from('helloworld'), { ...octets, 'upload-offset': '0' })
  await until('the bytes are being stored', async () => (await onDisk(folder)).length === 1)
  t.equal((await send(other, url, 0, 'HELLOWORLD')).status, 204)
  t.equal(await rest(), 409)
  t.equal(await offsetOf(one, url), '10')
  t.same(await onDisk(folder), [`acme/${url.split('/').at(-1)}`])
})

test('a type that no header can have is refused for a resumable upload', async (t) => {
  const { as, app } = await open(t)
  for (const filetype of ['a\0b', 'text/plain\r\nx: y', 'é']) {
    refused(t, await announce(as('acme'), 5, { filename: 'a.txt', filetype }), 400, 'VALIDATION_FAILED', filetype)
  }
  t.same(await rows(app), {})
})

test('a wrong value in Upload-Metadata is refused with its name', async (t) => {
  const { as, app } = await open(t)
  for (const [metadata, detail] of [
    [{ filetype: 'text/plain' }, { path: '/body/filename', message: 'must have a file name', keyword: 'required' }],
    [{ filename: 'a.txt', public: 'yes' }, { path: '/body/public', message: 'must be true or false', keyword: 'type' }]
  ] as const) {
    const response = await announce(as('acme'), 5, metadata)
    refused(t, response, 400, 'VALIDATION_FAILED')
    t.same(response.body.details, [detail])
  }
  t.same(await rows(app), {})
})

test('a resumable upload has a limited number of parts', async (t) => {
  const { app, as } = await open(t)
  const ada = as('acme')
  const url = urlOf(await announce(ada, 100_000))
  await sql`insert into tenantry.file_parts (tenant_id, file_id, id, start, size)
    select 'acme', ${url.split('/').at(-1)}::uuid, gen_random_uuid(), n, 1 from generate_series(0, 9999) n`.execute(app.db)
  t.equal(await offsetOf(ada, url), '10000')
  refused(t, await send(ada, url, 10_000, 'x'), 400, 'BAD_REQUEST', 'one more part')
  t.equal((await ada.ask(`DELETE ${url}`, { headers: version })).status, 204)
})

test('the ignored body of an announcement does not hold up the next request of its connection', async (t) => {
  const { as } = await open(t)
  const { origin, headers } = as('acme')
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  let received = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    received += part
  })
  const lines = Object.entries({
    host: 'x',
    ...headers,
    ...version,
    'upload-length': '1',
    'upload-metadata': 'filename YQ==',
    'content-type': 'application/json',
    'content-length': String(MB)
  })
  socket.write(`POST /files/resumable HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${'x'.repeat(MB)}`)
  await until('the upload is announced', () => received.startsWith('HTTP/1.1 201 '))
  socket.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
  await until('the next request has a response', () => received.includes('HTTP/1.1 200 '))
})
