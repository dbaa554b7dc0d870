/** `tenantry dev`. */
import t from 'tap'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { signToken, testSecret } from '../helpers/tokens.js'
import { launch } from './tenantry.js'

const documentOf = (greeting: string) => JSON.stringify({
  jwt: {},
  auth: { registration: 'open' },
  routes: [{ path: '/greeting', method: 'get', response: { greeting } }]
})

t.test('a change is served, a fault is printed while the version before serves on, and mails are printed', async (t) => {
  const folder = t.testdir({ 'tenantry.json': documentOf('one'), '.env': `JWT_SECRET=${testSecret}\n` })
  const save = (text: string) => writeFile(join(folder, 'tenantry.json'), text)
  const dev = launch(t, folder, ['dev', '--port', '0'])
  const addressOf = (line: string) => line.slice('listening on '.length)
  const first = addressOf(await dev.line(/^listening on /))
  const greeting = async (address: string) => await (await fetch(`${address}/greeting`)).json()
  t.strictSame(await greeting(first), { greeting: 'one' })

  const json = { 'content-type': 'application/json' }
  const admin = { ...json, authorization: `Bearer ${signToken({ sub: 'ops', role: 'admin' })}` }
  t.equal((await fetch(`${first}/tenants`, { method: 'POST', headers: admin, body: JSON.stringify({ id: 'acme', name: 'Acme' }) })).status, 201)
  const registered = await fetch(`${first}/auth/register`, {
    method: 'POST', headers: { ...json, 'x-tenant-id': 'acme' }, body: JSON.stringify({ email: 'ada@example.com', password: 'correct horse' })
  })
  t.equal(registered.status, 201)
  await dev.line(/^mail to ada@example\.com: /)
  await dev.line(/^http:\/\/localhost:3000\/verify-email#token=/)

  await save('{ "routes": [}')
  await dev.errorLine(/the version before serves on/)
  t.strictSame(await greeting(first), { greeting: 'one' })

  await save(documentOf('two'))
  await dev.errorLine(/^the document has changed/)
  const second = addressOf(await dev.line(/^listening on /, 2))
  t.strictSame(await greeting(second), { greeting: 'two' })

  dev.kill('SIGTERM')
  t.equal((await dev.ended).code, 0)
  await t.rejects(fetch(`${second}/greeting`), 'the server has ended with it')
})
