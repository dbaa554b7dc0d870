/** Pages under `/ui` that fail, or are asked for in an unusual way. */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { type Test, test } from 'tap'
import { testApp } from '../../helpers/app.js'

const open = async (t: Test) => (await testApp(t, { plugins: { conventions: { root: true }, openapi: {} } })).app

test('each spelling of a page is the whole page, and any other path is a 404 of the catalogue', async (t) => {
  const app = await open(t)
  const whole = await app.inject('/ui/static/index.css')
  for (const headers of [{ range: 'bytes=0-5' }, { range: 'bytes=99999999-' }, { 'if-match': '"x"' }]) {
    const { statusCode, rawPayload } = await app.inject({ url: '/ui/static/%69ndex.css', headers })
    t.same([statusCode, rawPayload.length], [200, whole.rawPayload.length], JSON.stringify(headers))
  }
  for (const url of ['/ui/static/%00', '/ui/static/%2e%2e%2fpackage.json']) {
    const response = await app.inject(url)
    t.equal(response.statusCode, 404, url)
    t.match(response.json(), { code: 'TENANTRY_NOT_FOUND', requestId: String })
  }
})

test('pages that could not be loaded are loaded by a later request', async (t) => {
  const app = await open(t)
  const { readdir } = fs.promises
  const replace = (by: unknown) => {
    Object.assign(fs.promises, { readdir: by })
    syncBuiltinESMExports()
  }
  t.teardown(() => replace(readdir))
  replace(() => Promise.reject(Object.assign(new Error('too many open files'), { code: 'EMFILE' })))
  t.match((await app.inject('/ui')).json(), { code: 'TENANTRY_INTERNAL' })
  replace(readdir)
  t.equal((await app.inject('/ui')).statusCode, 200)
})

test('the pages have a limit of their own, unless perEndpoint names them or rate limits are off', async (t) => {
  const limits = async (rateLimit: object) => {
    const { app } = await testApp(t, { plugins: { conventions: { root: true }, 'rate-limit': rateLimit, openapi: {} } })
    const found = []
    for (const url of ['/ui', '/ui/json']) found.push((await app.inject(url)).headers['x-ratelimit-limit'])
    return found
  }
  t.strictSame(await limits({ enabled: true, default: { max: 7 } }), ['100', '100'])
  t.strictSame(await limits({ enabled: true, default: { max: 7 }, perEndpoint: { '/ui': { max: 2 }, 'GET /ui/*': { max: 3 } } }), ['2', '3'])
  t.strictSame(await limits({ enabled: false }), [undefined, undefined])
  t.strictSame(await limits({ enabled: true, plansOnly: true }), ['100', '100'])
})
