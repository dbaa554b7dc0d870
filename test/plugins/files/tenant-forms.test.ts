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

test('a body that is no form is refused with the content type that the endpoint takes', async (t) => {
  const inbox = { method: 'post', requireAuth: true, multipart: true, response: { id: '{{files.file.id}}' } } as const
  const { as } = await open(t, { routes: [{ path: '/inbox', ...inbox }, { path: '/json', method: 'post', response: { ok: true } }] })
  const saved = await as('acme', { role: 'admin' }).ask('POST /tenant/config', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ routes: [{ path: '/own', ...inbox }, { path: '/own-json', method: 'post', response: { ok: true } }] })
  })
  t.equal(saved.status, 200)
  const ada = as('acme')
  const types = ['application/x-www-form-urlencoded', 'application/octet-stream', 'text/plain', 'application/json']
  for (
    const [path, expected] of [
      ['/files/upload', 'Send the file as multipart/form-data'],
      ['/inbox', 'Send the form as multipart/form-data'],
      ['/own', 'Send the form as multipart/form-data'],
      ['/json', 'Send the body as application/json'],
      ['/own-json', 'Send the body as application/json']
    ] as const
  ) {
    for (const type of expected.endsWith('json') ? types.slice(0, 3) : types) {
      for (const size of [2, 20_000]) {
        const { status, body } = await ada.ask(`POST ${path}`, {
          headers: { 'content-type': type },
          body: type === 'application/json' ? `"${'1'.repeat(size)}"` : '1'.repeat(size)
        })
        t.same([status, body['message']], [415, expected], `${path} ${type} ${size}`)
      }
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
