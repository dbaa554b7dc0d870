/** Second factors of users who have not confirmed their address. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { type Ask, refused, type Reply } from '../../http/caller.js'
import { addUser, open as openWithoutMail, password } from '../login/app.js'
import { open as openWithMail, tokenOf } from '../passwords/app.js'
import { enrol, setUp } from './app.js'

const email = 'ada@example.com'

async function open (t: Test) {
  const opened = await openWithMail(t, await postgresSection(t), { tenants: ['acme'], mfa: true })
  const { ask, mails, settled, logIn } = opened
  const as = ({ body }: Reply): Ask => (target, request) => ask(target, { token: String(body['token']), ...request })
  return {
    ...opened,
    as,
    loggedIn: async (tenant: string, address: string) => as(await logIn(tenant, address)),
    /** The token of the latest link. */
    async link () {
      await settled()
      return tokenOf(mails.at(-1)!)
    }
  }
}

test('a stranger who registers an address cannot keep its owner out with a second factor', async (t) => {
  const { ask, as, clock, forgot, link, logIn } = await open(t)
  const stranger = as(await ask('POST /auth/register', { tenant: 'acme', body: { email, password } }))
  const refusal = await stranger('POST /mfa/setup')
  refused(t, refusal, 403, 'FORBIDDEN')
  t.match(refusal.body, { message: /POST \/auth\/email\/resend/ })
  t.equal((await stranger('POST /mfa/enable', { body: { code: '123456' } })).status, 409, 'nothing is set up')

  await forgot('acme', email)
  t.equal((await ask('POST /auth/password/reset', { body: { token: await link(), password } })).status, 200)
  const owner = await logIn('acme', email)
  t.match(owner.body, { token: String })
  await enrol(t, as(owner), clock)
})

test('users set up a second factor once their address is confirmed, and can then always move it', async (t) => {
  const { app, ask, clock, link, loggedIn } = await open(t)
  for (const tenant of ['acme', '']) {
    await addUser(app, tenant, email, 'admin')
    const user = await loggedIn(tenant, email)
    refused(t, await user('POST /mfa/setup'), 403, 'FORBIDDEN', 'a user whom the operator created')
    t.equal((await user('POST /auth/email/resend')).status, 202)
    t.equal((await ask('POST /auth/email/verify', { body: { token: await link() } })).status, 200)
    await setUp(t, user, clock)
  }
  const ada = await loggedIn('acme', email)
  t.equal((await ada('POST /users/invite', { body: { email: 'eve@example.com' } })).status, 201)
  await ask('POST /auth/invite/accept', { body: { token: await link(), password } })
  await setUp(t, await loggedIn('acme', 'eve@example.com'), clock)
  const token = app.auth.sign({ sub: 'idp-ada', tenant_id: 'acme' })
  await setUp(t, (target, request) => ask(target, { token, ...request }), clock)

  const { backupCodes: [code] } = await enrol(t, ada, clock)
  await sql`update tenantry.users set email_verified_at = null`.execute(app.db)
  await setUp(t, ada, clock, code)
})

test('without mail, a user sets up a second factor with an address that is not confirmed', async (t) => {
  const { ask, clock } = await openWithoutMail(t, await postgresSection(t), { tenants: ['acme'], registration: 'open', mfa: true })
  const { body: { token } } = await ask('POST /auth/register', { tenant: 'acme', body: { email, password } })
  await enrol(t, (target, request) => ask(target, { token: String(token), ...request }), clock)
})
