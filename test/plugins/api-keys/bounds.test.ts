/** Guessed keys, and the responses of rotations. */
import { test } from 'tap'
import conventions from '../../../plugins/conventions/index.js'
import { testApp } from '../../helpers/app.js'
import { refused } from '../../http/caller.js'
import { open, postgresSection } from '../auth/app.js'
import { countReads, guessedKey, makeKey } from './key.js'

test('each guessed key costs one database lookup, however many there were', async (t) => {
  const { app, ask: admin } = await testApp(t, {
    plugins: { tenancy: {}, 'rate-limit': { enabled: true, default: { max: 100_000, windowMs: 60_000 } }, 'api-keys': {} },
    tenants: ['acme'],
    claims: { role: 'admin', tenant_id: 'acme' },
    routes: (app) =>
      app.register(async (group) => {
        await group.register(conventions)
        group.get('/who', { config: { access: 'user' } }, async () => ({}))
      })
  })
  const [known, cold] = [await makeKey(t, admin), await makeKey(t, admin)]
  const send = async (key: string) => (await app.inject({ url: '/who', headers: { 'x-api-key': key } })).statusCode
  t.equal(await send(known.key), 200)

  const reads = countReads(t, app)
  const statuses: number[] = []
  for (let index = 0; index < 150; index++) statuses.push(await send(guessedKey(known, index)))
  t.equal(statuses.filter((status) => status === 401).length, 100)
  t.equal(statuses.filter((status) => status === 429).length, 50)
  t.equal(reads(), 100)
  t.equal(await send(known.key), 200, 'a cached key is not counted')
  t.equal(
    (await app.inject({ url: '/who', headers: { 'x-api-key': cold.key }, remoteAddress: '192.0.2.7' })).statusCode,
    200,
    'another address has its own count'
  )
})

test('a rotation keeps the previous key at most until its expiry, and an expired key cannot be rotated', async (t) => {
  let time = Date.now()
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['api-keys'], now: () => time })
  const admin = as({ tenant_id: 'acme', role: 'admin', exp: Math.ceil(time / 1000) + 86_400 })
  const expiresAt = new Date(time + 3_600_000).toISOString()
  const { id } = await makeKey(t, admin, { expiresAt })
  t.match((await admin(`POST /tenant/api-keys/${id}/rotate`, { body: { gracePeriodDays: 30 } })).body, { oldKeyValidUntil: expiresAt })
  time += 3_600_000
  const response = await admin(`POST /tenant/api-keys/${id}/rotate`)
  refused(t, response, 409, 'CONFLICT')
  t.match(response.body, { message: 'The API key has expired: create a new one' })
})
