/** Uploads, reads and downloads of one server. */
import { createHash } from 'node:crypto'
import { test } from 'tap'
import { forEachEngine } from '../../helpers/postgres.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { file, onDisk, open, rows, storage, userOf } from './app.js'

const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')

test('an upload can be read, listed, downloaded and deleted, and counts as storage', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, as, folder } = await open(t, {}, { engine })
    const ada = as('acme')
    const response = await ada.upload([file('hello'), { name: 'entityType', value: 'notes' }, { name: 'entityId', value: '7' }, {
      name: 'metadata',
      value: '{"a":[1]}'
    }])
    t.equal(response.status, 201, response.text)
    const { id, createdAt, url, key, ...rest } = response.body
    t.same(rest, {
      bucket: 'private',
      name: 'a.txt',
      contentType: 'text/plain',
      size: 5,
      sha256: createHash('sha256').update('hello').digest('hex'),
      public: false,
      entityType: 'notes',
      entityId: '7',
      metadata: { a: [1] },
      createdBy: 'ada'
    })
    t.equal(key, `acme/${String(id)}`)
    t.equal(url, `/files/download/private/acme/${String(id)}`)
    t.ok(Date.parse(String(createdAt)) > 0)
    t.same(await storage(app, 'acme'), { booked: 5, reserved: 0, shown: 5 })
    t.same((await ada.ask(`GET /files/${String(id)}`)).body, response.body)
    t.same((await ada.ask('GET /files/entity/notes/7')).body, { data: [response.body], pagination: { limit: 20, offset: 0, total: 1 } })
    t.same((await ada.ask('GET /files/entity/notes/8')).body.data, [])

    const download = await ada.ask(`GET ${String(url)}`)
    t.equal(download.status, 200)
    t.equal(download.text, 'hello')
    t.match(download.headers, {
      etag: `"${String(rest.sha256)}"`,
      'content-length': '5',
      'content-type': 'text/plain; charset=utf-8',
      'accept-ranges': 'bytes',
      'cache-control': 'private, no-cache',
      'content-disposition': 'attachment; filename="a.txt"; filename*=UTF-8\'\'a.txt',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'"
    })
    const head = await ada.ask(`HEAD ${String(url)}`)
    t.match(head, { status: 200, text: '', headers: { 'content-length': '5', etag: download.headers['etag'] } })
    t.match(await ada.ask(`GET ${String(url)}`, { headers: { 'if-none-match': String(download.headers['etag']) } }), {
      status: 304,
      text: ''
    })

    t.same((await ada.ask(`DELETE /files/${String(id)}`)).body, { success: true })
    for (const target of [`GET /files/${String(id)}`, `GET ${String(url)}`, `DELETE /files/${String(id)}`]) {
      refused(t, await ada.ask(target), 404, 'NOT_FOUND', target)
    }
    t.same(await storage(app, 'acme'), { booked: 0, reserved: 0, shown: 0 })
    t.same([await onDisk(folder), await rows(app)], [[], {}])
  }))

test('a file whose id is sent in capital letters is deleted with its object', async (t) => {
  const { app, as, folder } = await open(t)
  const ada = as('acme')
  const id = String((await ada.upload([file('hello')])).body['id']).toUpperCase()
  const bytes = await app.files.open('acme', id)
  t.equal((await bytes?.toArray())?.join(''), 'hello')
  t.equal((await ada.ask(`DELETE /files/${id}`)).status, 200)
  t.same([await onDisk(folder), await rows(app)], [[], {}])
})

test('a single range returns its bytes, or 416', async (t) => {
  const { as } = await open(t)
  const ada = as('acme')
  const { body: { url } } = await ada.upload([file('0123456789')])
  const get = async (range: string, headers = {}) => {
    const { status, text, headers: received } = await ada.ask(`GET ${String(url)}`, { headers: { range, ...headers } })
    return [status, status === 416 ? received['content-range'] : text, ...status === 206 ? [received['content-range'], received['content-length']] : []]
  }
  t.same(await get('bytes=2-4'), [206, '234', 'bytes 2-4/10', '3'])
  t.same(await get('bytes=8-'), [206, '89', 'bytes 8-9/10', '2'])
  t.same(await get('bytes=-3'), [206, '789', 'bytes 7-9/10', '3'])
  t.same(await get('bytes=-300'), [206, '0123456789', 'bytes 0-9/10', '10'])
  t.same(await get('bytes=5-999999999999999999999'), [206, '56789', 'bytes 5-9/10', '5'])
  for (const range of ['bytes=10-', 'bytes=-0', 'bytes=99999999999999999999-']) t.same(await get(range), [416, 'bytes */10'], range)
  for (const range of ['bytes=0-1,3-4', 'bytes=4-2', 'bytes=-', 'items=0-1', 'bytes=a-b']) {
    t.same(await get(range), [200, '0123456789'], range)
  }
  t.same(await get('bytes=0-1', { 'if-range': '"another"' }), [200, '0123456789'])
  for (const range of ['bytes=2-4', 'bytes=10-']) {
    t.match(await ada.ask(`HEAD ${String(url)}`, { headers: { range } }), { status: 200, headers: { 'content-length': '10' } }, 'of HEAD, it has no effect')
  }
  const empty = await ada.upload([file('')])
  t.match(empty, { status: 201, body: { size: 0 } })
  t.match(await ada.ask(`GET ${String(empty.body['url'])}`), { status: 200, text: '', headers: { 'content-length': '0' } })
  t.equal((await ada.ask(`GET ${String(empty.body['url'])}`, { headers: { range: 'bytes=0-' } })).status, 416)
})

test('a browser displays only safe types, detected by content', async (t) => {
  const { as } = await open(t)
  const ada = as('acme')
  const shown = async (value: string | Buffer, declared: string) => {
    const { body: { url, contentType } } = await ada.upload([file(value, 'f', declared)])
    const { headers } = await ada.ask(`GET ${String(url)}?inline=1`)
    t.match(headers, { 'x-content-type-options': 'nosniff', 'content-security-policy': "sandbox; default-src 'none'" })
    return [contentType, String(headers['content-disposition']).split(';')[0]]
  }
  const html = '<!doctype html><script>alert(1)</script>'
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
  t.same(await shown(png, 'text/html'), ['image/png', 'inline'], 'the content decides, not the uploader')
  t.same(await shown('plain', 'text/plain'), ['text/plain', 'inline'])
  t.same(await shown(html, 'text/html'), ['text/html', 'attachment'])
  t.same(await shown(html, 'image/png'), ['application/octet-stream', 'attachment'])
  t.same(await shown(svg, 'image/svg+xml'), ['image/svg+xml', 'attachment'])
  t.same(await shown(`<?xml version="1.0"?>${svg}`, 'image/svg+xml'), ['image/svg+xml', 'attachment'])
  t.same(await shown(`<?xml version="1.0"?>${svg}`, 'image/png'), ['application/xml', 'attachment'])
  t.same(await shown('%PDF-1.7\n', 'text/plain'), ['application/pdf', 'attachment'])
  t.same(await shown(Buffer.from('a\0b'), 'text/plain'), ['application/octet-stream', 'attachment'], 'text does not contain NUL')
  t.same(
    await shown('GIF89a/*<script>*/=1;alert(1)', 'text/html'),
    ['image/gif', 'inline'],
    'a GIF that is also JavaScript is sent as a GIF with nosniff'
  )
})

test("a public file needs no token, and its bytes count as its tenant's bandwidth", async (t) => {
  const { app, as, origin } = await open(t)
  const { body } = await as('acme').upload([file('for everyone'), { name: 'public', value: 'true' }])
  t.match(body, { bucket: 'public', public: true })
  const stranger = userOf(t, origin, {})
  const before = (await app.usage.summary('acme')).bandwidth_bytes
  const response = await stranger.ask(`GET ${String(body['url'])}`)
  t.match(response, {
    status: 200,
    text: 'for everyone',
    headers: { 'cache-control': 'public, max-age=300', 'cross-origin-resource-policy': 'cross-origin' }
  })
  await until(
    'the bytes are counted when the response has ended',
    async () => (await app.usage.summary('acme')).bandwidth_bytes - before === 12
  )
  t.equal(
    (await userOf(t, origin, bearer({ tenant_id: 'globex' })).ask(`GET ${String(body['url'])}`)).status,
    200,
    "for other tenants' users too"
  )
  const secret = await as('acme').upload([file('x')])
  const path = String(secret.body['url'])
  refused(t, await stranger.ask(`GET ${path}`), 401, 'TOKEN_MISSING')
  refused(
    t,
    await stranger.ask(`GET ${path.replace('/private/', '/public/')}`),
    404,
    'NOT_FOUND',
    "another bucket's name opens nothing"
  )
  refused(t, await stranger.ask(`GET ${path}`, { headers: { 'x-tenant-id': 'acme' } }), 401, 'TOKEN_MISSING')
  await app.tenants.update('acme', { status: 'suspended' })
  refused(t, await stranger.ask(`GET ${String(body['url'])}`), 403, 'TENANT_SUSPENDED')
})

test('a file can be deleted by its uploader, administrators and holders of files:delete', async (t) => {
  const { as } = await open(t)
  const put = async () => String((await as('acme').upload([file('x')])).body['id'])
  const other = as('acme', { sub: 'bob' })
  refused(t, await other.ask(`DELETE /files/${await put()}`), 403, 'FORBIDDEN')
  for (const user of [as('acme'), as('acme', { sub: 'bob', role: 'admin' }), as('acme', { sub: 'bob', permissions: ['files:delete'] })]) {
    t.equal((await user.ask(`DELETE /files/${await put()}`)).status, 200)
  }
})

test('a download from a private bucket without a token is a 401 for any bucket and key', async (t) => {
  const { app, as } = await open(t)
  const { body: { url } } = await as('acme').upload([file('x')])
  for (const path of [String(url), '/files/download/private/acme/x', '/files/download/private/x', '/files/download/other/acme/x']) {
    t.match(await app.inject(path), { statusCode: 401 }, path)
  }
  t.match(await app.inject('/files/download/public/acme/x'), { statusCode: 404 })
})

test('a wrong signature is a 403 for any bucket, so that it does not show which buckets exist', async (t) => {
  const { app } = await open(t, { files: { buckets: { payroll: { permissions: ['payroll:read'] } } } })
  for (const bucket of ['private', 'payroll', 'none']) {
    const path = `/files/download/${bucket}/acme/6310ffc8-bff8-472e-bc05-66f4e283874b?signature=x`
    t.match((await app.inject(path)).json(), { code: 'TENANTRY_URL_SIGNATURE_INVALID' }, bucket)
  }
})

test("another tenant's files do not exist", async (t) => {
  const { app, as } = await open(t)
  const { body: { id, url, key } } = await as('acme').upload([file('x'), { name: 'entityType', value: 'notes' }, {
    name: 'entityId',
    value: '1'
  }])
  const globex = as('globex', { role: 'admin' })
  const path = String(url)
  for (
    const target of [
      `GET /files/${String(id)}`,
      `DELETE /files/${String(id)}`,
      `POST /files/${String(id)}/confirm`,
      `GET ${path}`,
      `HEAD ${path}`,
      `GET /files/signed-url/private/${String(key)}`,
      `GET /files/download/private/globex/${String(id)}`,
      `GET /files/signed-url/private/globex/${String(id)}`
    ]
  ) {
    t.equal((await globex.ask(target)).status, 404, target)
  }
  t.same((await globex.ask('GET /files/entity/notes/1')).body.data, [])
  t.equal(await app.files.get('globex', String(id)), null)
  t.equal(await app.files.open('globex', String(id)), null)
  t.equal(await app.files.remove('globex', String(id), { sub: 'x', actor: { userId: 'x', address: null } }), false)
  t.equal((await as('acme').ask(`GET ${path}`)).status, 200)
})
