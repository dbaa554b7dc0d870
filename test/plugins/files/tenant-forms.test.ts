/** Forms of a tenant's own route. */
import { test } from 'tap'
import { boundary, form, open } from './app.js'

test("a tenant's own route receives forms of any size up to its limit", async (t) => {
  const { as } = await open(t)
  const saved = await as('acme', { role: 'admin' }).ask('POST /tenant/config', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      routes: [{ path: '/inbox', method: 'post', requireAuth: true, multipart: true, response: { size: '{{files.file.size}}' } }]
    })
  })
  t.equal(saved.status, 200)
  const ada = as('acme')
  for (const type of ['multipart/form-data', 'Multipart/Form-Data']) {
    const headers = { 'content-type': `${type}; boundary=${boundary}` }
    for (const size of [1000, 20_000, 1_000_000]) {
      const body = form([{ name: 'file', value: Buffer.alloc(size), filename: 'a.bin', type: 'application/octet-stream' }])
      t.match(await ada.ask('POST /inbox', { headers, body }), { status: 200, body: { size } }, `${type}, ${size} bytes`)
      t.match(await ada.ask('POST /files/upload', { headers, body }), { status: 201, body: { size } }, `${type}, ${size} bytes`)
    }
  }
})

test('a form for a tenant\'s route without `multipart` is refused unread', async (t) => {
  const { as } = await open(t)
  await as('acme', { role: 'admin' }).ask('POST /tenant/config', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ routes: [{ path: '/inbox', method: 'post', requireAuth: true, response: { ok: true } }] })
  })
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
  const body = form([{ name: 'file', value: Buffer.alloc(100_000), filename: 'a.bin' }])
  t.match(await as('acme').ask('POST /inbox', { headers, body }), { status: 415, body: { code: 'TENANTRY_MEDIA_TYPE_UNSUPPORTED' } })
})
