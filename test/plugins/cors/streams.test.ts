/** CORS for downloads and resumable uploads, which have streams as bodies and protocol headers. */
import { test } from 'tap'
import { until } from '../../helpers/until.js'
import { open } from '../files/app.js'

const platform = 'https://console.example.com'
const shop = 'https://shop.acme.test'
const version = { 'tus-resumable': '1.0.0' }

test('streams and file protocols', async (t) => {
  const { as } = await open(t, { cors: { origins: [platform] } })
  const [acme, globex] = [as('acme'), as('globex')]
  const saved = await as('acme', { role: 'admin' }).ask('POST /tenant/config', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ cors: { origins: [shop] } })
  })
  t.equal(saved.status, 200)
  const asks = (origin: string, user = acme): typeof acme.ask => (target, { headers = {}, body } = {}) =>
    user.ask(target, { headers: { origin, ...headers }, ...body !== undefined && { body } })
  await until(
    'the origin of the tenant is known',
    async () => (await asks(shop)('GET /tenant/info')).headers['access-control-allow-origin'] === shop
  )
  const part = { name: 'file', value: 'hello', filename: 'a.txt', type: 'text/plain' }

  for (const origin of [platform, shop]) {
    await t.test(origin, async (t) => {
      const ask = asks(origin)
      const shows = (
        label: string,
        { status, headers }: { status: number, headers: Readonly<Record<string, unknown>> },
        expected: number,
        readable: RegExp = /\bx-request-id\b/
      ) => {
        t.equal(status, expected, label)
        t.equal(headers['access-control-allow-origin'], origin, `${label}: the page may read it`)
        t.match(headers['access-control-expose-headers'], readable, `${label}: and its headers`)
        t.match(headers['vary'], /origin/i)
      }
      const { body: { url }, ...uploaded } = await acme.upload([part], { origin })
      shows('an upload', uploaded, 201, /\blocation\b/)
      const path = String(url)
      const whole = await ask(`GET ${path}`)
      shows('a download', whole, 200, /\betag\b/)
      t.equal(whole.text, 'hello')
      shows('a range', await ask(`GET ${path}`, { headers: { range: 'bytes=1-2' } }), 206)
      shows('a range beyond the end', await ask(`GET ${path}`, { headers: { range: 'bytes=9-' } }), 416)
      shows("the page's cached copy", await ask(`GET ${path}`, { headers: { 'if-none-match': String(whole.headers['etag']) } }), 304)
      shows('HEAD', await ask(`HEAD ${path}`), 200)
      shows('an unknown file', await ask('GET /files/download/private/none'), 404)

      const preflight = (target: string, method: string) =>
        asks(origin, { ...acme, ask: as('acme').ask })(`OPTIONS ${target}`, {
          headers: {
            authorization: '',
            'access-control-request-method': method,
            'access-control-request-headers': 'tus-resumable,upload-offset'
          }
        })
      const announced = await ask('POST /files/resumable', {
        headers: { ...version, 'upload-length': '5', 'upload-metadata': `filename ${Buffer.from('b.txt').toString('base64')}` }
      })
      shows('an announcement', announced, 201, /\blocation\b.*\bupload-offset\b/)
      const upload = String(announced.headers['location'])
      for (const [target, method] of [['/files/resumable', 'POST'], [upload, 'PATCH'], [upload, 'HEAD'], [upload, 'DELETE']] as const) {
        const { status, headers } = await preflight(target, method)
        t.match({ status, headers }, {
          status: 204,
          headers: { 'access-control-allow-origin': origin, 'access-control-allow-headers': /tus-resumable/ }
        }, `preflight of ${method} ${target === upload ? 'an upload' : target}`)
        t.match(headers['access-control-allow-methods'], new RegExp(`\\b${method}\\b`))
      }
      shows('the offset', await ask(`HEAD ${upload}`, { headers: version }), 200, /\bupload-offset\b/)
      shows(
        'bytes',
        await ask(`PATCH ${upload}`, {
          headers: { ...version, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
          body: 'he'
        }),
        204,
        /\bupload-offset\b/
      )
      shows(
        'another offset',
        await ask(`PATCH ${upload}`, {
          headers: { ...version, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
          body: 'he'
        }),
        409
      )
      shows('the end', await ask(`DELETE ${upload}`, { headers: version }), 204)
    })
  }

  await t.test("unlisted origins and another tenant's origins cannot read", async (t) => {
    const { body } = await globex.upload([part])
    const { body: own } = await acme.upload([part])
    for (const [origin, user, url] of [['https://evil.test', acme, own['url']], [shop, globex, body['url']]] as const) {
      for (const target of [`GET ${String(url)}`, 'POST /files/resumable']) {
        t.notOk('access-control-allow-origin' in (await asks(origin, user)(target, { headers: version })).headers, target)
      }
    }
    const { headers } = await asks('https://evil.test')('OPTIONS /files/resumable', {
      headers: { 'access-control-request-method': 'POST' }
    })
    t.notOk('access-control-allow-origin' in headers)
    t.notOk('access-control-allow-methods' in headers)
  })
})
