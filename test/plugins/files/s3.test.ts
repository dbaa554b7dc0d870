/** Files in S3 over HTTP, with real object storage that checks signatures. */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { createS3Store } from '../../../lib/files/s3.js'
import type { Route } from '../../../lib/schema/route.js'
import { listen, testServer } from '../../helpers/server.js'
import { startSwift, type Swift } from '../../helpers/swift.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { file, form, formHeaders, half, MB, plans, rows, storage, type User, userOf } from './app.js'
import { announce, send, urlOf } from './tus.js'

const json = { 'content-type': 'application/json' }
const nothing = { booked: 0, reserved: 0, shown: 0 }
const unknown = 'application/octet-stream'

const route: Route = {
  path: '/put',
  method: 'post',
  requireAuth: true,
  workflow: {
    steps: [{ id: 's', type: 'storage', operation: 'put', params: { name: 'a', contentType: '{{input.type}}', content: 'hello' } }]
  }
}

async function open (t: Test, swift: Swift, folder: string): Promise<{ readonly app: FastifyInstance, readonly ada: User }> {
  const { stop: _stop, ...s3 } = swift
  const app = await testServer(t, { plans, storageProvider: 's3', s3, files: { path: folder }, routes: [route] }, {
    tenants: [{ id: 'acme', plan: 'large' }]
  })
  return { app, ada: userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' })) }
}

async function keysOf (t: Test, { stop: _stop, ...s3 }: Swift): Promise<string[]> {
  const store = await createS3Store(s3)
  t.teardown(() => store.close())
  const keys: string[] = []
  for await (const page of store.list('')) keys.push(...page.map(({ key }) => key))
  return keys.sort()
}

test('files in S3', async (t) => {
  const swift = await startSwift(t)
  const { app, ada } = await open(t, swift, t.testdir())
  const bytes = randomBytes(9 * MB)
  const { status, body } = await ada.upload([file(bytes)])
  t.equal(status, 201)
  t.equal(bytes.compare((await ada.ask(`GET ${String(body['url'])}`)).bytes), 0, 'of several parts')
  const part = await ada.ask(`GET ${String(body['url'])}`, { headers: { range: 'bytes=8388600-8388615' } })
  t.match([part.status, part.headers], [206, { 'content-range': `bytes 8388600-8388615/${9 * MB}` }])
  t.equal(part.bytes.compare(bytes.subarray(8_388_600, 8_388_616)), 0)
  t.equal((await ada.ask(`GET ${String(body['url'])}`, { headers: { range: `bytes=${9 * MB}-` } })).status, 416)

  const { body: { url } } = await ada.ask(`GET /files/signed-url/private/${String(body['key'])}`)
  t.match(url, new RegExp(`^${swift.endpoint}/`), 'a signed URL leads to S3')
  const signed = await fetch(String(url))
  t.match([signed.status, signed.headers.get('content-disposition')], [200, /^attachment; filename="a\.txt"/])
  t.equal((await signed.arrayBuffer()).byteLength, 9 * MB)
  t.equal((await fetch(String(url).replace(String(body['id']), crypto.randomUUID()))).status, 403)

  const failed = await ada.upload([file('x'), { name: 'bucket', value: 'unknown' }])
  t.equal(failed.status, 400)
  t.same(await keysOf(t, swift), [body['key']])
  t.equal((await ada.ask(`DELETE /files/${String(body['id'])}`)).status, 200)
  t.same([await keysOf(t, swift), await rows(app), await storage(app, 'acme')], [[], {}, nothing])

  await t.test('bytes go straight to S3, exactly as many as were signed', async (t) => {
    const announced = await ada.ask('POST /files/presign', {
      headers: json,
      body: JSON.stringify({ name: 'a.txt', contentType: 'text/plain', size: 5 })
    })
    t.equal(announced.status, 201, announced.text)
    const { id, url, headers } = announced.body
    t.match([url, headers], [new RegExp(`^${swift.endpoint}/`), { 'content-length': '5', 'content-type': 'text/plain' }])
    const send = (body: string) => fetch(String(url), { method: 'PUT', headers: { 'content-type': 'text/plain' }, body })
    const confirm = () => ada.ask(`POST /files/${String(id)}/confirm`)
    t.equal((await send('longer')).status, 403)
    t.equal((await send('')).status, 403)
    refused(t, await confirm(), 409, 'STATE_CONFLICT')
    t.same([await keysOf(t, swift), (await storage(app, 'acme')).booked], [[], 5])
    t.equal((await send('bytes')).status, 200)
    const confirmed = await confirm()
    t.match([confirmed.status, confirmed.body], [200, { id, size: 5, contentType: 'text/plain' }])
    t.equal((await confirm()).status, 200)
    t.equal((await send('other')).status, 200, 'the URL is still valid')
    t.equal((await ada.ask(`GET ${String(confirmed.body['url'])}`)).text, 'bytes', 'but does not reach the file')
    t.equal((await ada.ask(`DELETE /files/${String(id)}`)).status, 200)
    t.same([await keysOf(t, swift), await rows(app), await storage(app, 'acme')], [[], { removed: 1 }, nothing], 'the row outlives the URL')
  })

  await t.test('a declared type that no header can have is ignored', async (t) => {
    for (const type of ['text/\u0001', 'text/ü', `text/${'a'.repeat(10_000)}`, `${'a'.repeat(10_000)}/plain`]) {
      const { status, body } = await ada.upload([file('hello', 'a.txt', type)])
      t.match([status, body], [201, { contentType: unknown }], type.slice(0, 10))
      t.equal((await ada.ask(`DELETE /files/${String(body['id'])}`)).status, 200)
    }
    for (const [type, contentType] of [['text/plain; name=über', 'text/plain'], ['text/\u0001', unknown]] as const) {
      const { status, body: { result } } = await ada.ask('POST /put', { headers: json, body: JSON.stringify({ type }) })
      t.match([status, result], [200, { contentType }], `a step with ${type}`)
      t.equal((await ada.ask(`DELETE /files/${String(Object(result).id)}`)).status, 200)
    }
    const long = 'a'.repeat(9000)
    for (const [filetype, contentType] of [[`text/plain;${long}`, 'text/plain'], [`${long}/plain`, unknown]] as const) {
      const upload = urlOf(await announce(ada, 5, { filename: 'a.txt', filetype }))
      t.equal((await send(ada, upload, 0, 'hello')).status, 204, 'a resumable upload')
      const path = upload.replace('/resumable', '')
      t.match((await ada.ask(`GET ${path}`)).body, { contentType, size: 5 })
      t.equal((await ada.ask(`DELETE ${path}`)).status, 200)
    }
    t.same([await keysOf(t, swift), await storage(app, 'acme')], [[], nothing])
  })

  await t.test('an outage before, during or after an upload is handled', async (t) => {
    const { body } = await ada.upload([file('kept')])
    const rest = await half(ada, 'POST', '/files/upload', form([file(randomBytes(24 * MB))]), formHeaders)
    await until('the upload is running', async () => (await rows(app))['pending'] === 1)
    swift.stop()
    t.equal(await rest(), 503, 'S3 fails midway')
    t.same(await storage(app, 'acme'), { booked: 4, reserved: 0, shown: 4 })
    refused(t, await ada.ask(`GET ${String(body['url'])}`), 503, 'STORAGE_UNAVAILABLE')
    refused(t, await ada.upload([file('x'.repeat(100_000))]), 503, 'STORAGE_UNAVAILABLE')
    t.equal((await storage(app, 'acme')).shown, 4)
    t.equal((await ada.ask(`GET /files/${String(body['id'])}`)).status, 200, 'data from the database is served')
    t.equal((await ada.ask(`DELETE /files/${String(body['id'])}`)).status, 200)
    refused(t, await ada.ask(`GET ${String(body['url'])}`), 404, 'NOT_FOUND')
    t.same(await storage(app, 'acme'), nothing)
    t.same(Object.keys(await rows(app)), ['removed'], 'the sweep deletes the objects')
  })
})
