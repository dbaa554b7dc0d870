import { test } from 'tap'
import { testApp } from '../../helpers/app.js'
import { postgresSection } from '../../helpers/postgres.js'
import { makeKey } from '../api-keys/key.js'
import { addUser, password } from '../login/app.js'

test('a flood with a stolen key and a stolen token does not keep an administrator from revoking them', async (t) => {
  const { app, ask, as } = await testApp(t, {
    engine: await postgresSection(t),
    plugins: {
      plans: { plans: { free: { limits: { api: { requestsPerMinute: 5 } } } } },
      tenancy: {},
      'rate-limit': { enabled: true, now: () => 1_800_000_000_000 },
      sessions: {},
      'api-keys': {},
      users: {},
      login: {},
      passwords: {}
    },
    tenants: ['acme']
  })
  await addUser(app, 'acme', 'boss@example.com', 'admin')
  const eve = await addUser(app, 'acme', 'eve@example.com')
  const tokenOf = async (email: string) => {
    const { body: { token } } = await ask('POST /auth/login', { tenant: 'acme', body: { email, password } })
    return { token: String(token) }
  }
  const boss = await tokenOf('boss@example.com')
  const stolen = await tokenOf('eve@example.com')
  const leaked = await makeKey(t, (target, given) => ask(target, { ...boss, ...given }))
  const other = await makeKey(t, (target, given) => ask(target, { ...boss, ...given }))

  const targets = ['GET /auth/me', 'GET /tenant/api-keys', 'GET /users', 'POST /auth/logout-all']
  for (const target of targets) {
    for (let times = 0; times < 31; times++) await as(leaked.key)(target)
    // Its logout would end the token.
    if (!target.startsWith('POST')) for (let times = 0; times < 31; times++) await ask(target, stolen)
  }
  t.equal((await ask('GET /auth/me', boss)).status, 429, 'the plan is used up')
  for (const flooded of ['GET /tenant/api-keys', 'GET /users']) {
    t.equal((await as(leaked.key)(flooded)).status, 429, `${flooded} with the key`)
    t.equal((await ask(flooded, stolen)).status, 429, `${flooded} with the token`)
  }

  const changed = 'a new password of the administrator'
  for (
    const [target, body] of [
      ['GET /tenant/api-keys'],
      [`POST /tenant/api-keys/${other.id}/rotate`],
      [`DELETE /tenant/api-keys/${leaked.id}`],
      ['GET /users?search=eve'],
      [`GET /users/${eve}`],
      [`PATCH /users/${eve}`, { status: 'disabled' }],
      [`DELETE /users/${eve}`],
      ['POST /auth/password', { currentPassword: password, password: changed }]
    ] as const
  ) t.equal((await ask(target, { ...boss, ...body !== undefined && { body } })).status, 200, target)
  for (const target of ['POST /auth/logout', 'POST /auth/logout-all']) {
    const { body: { token } } = await ask('POST /auth/login', { tenant: 'acme', body: { email: 'boss@example.com', password: changed } })
    t.equal((await ask(target, { token: String(token) })).status, 200, target)
  }
  t.equal((await as(leaked.key)('GET /auth/me')).status, 401)
  t.equal((await ask('GET /auth/me', stolen)).status, 401)
})
