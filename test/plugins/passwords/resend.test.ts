/** `POST /auth/email/resend`. */
import { sql } from 'kysely'
import { test } from 'tap'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { platformKey } from '../auth/app.js'
import { password } from '../login/app.js'
import { open, tokenOf } from './app.js'

const email = 'ada@example.com'
const minute = 60_000 // ms

test('a user requests another mail that confirms its address', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme', 'globex'] })
    const { app, ask, clock, mails } = opened
    const registered = await ask('POST /auth/register', { tenant: 'acme', body: { email, password } })
    await ask('POST /auth/register', { tenant: 'globex', body: { email, password } })
    await opened.settled()
    const [first] = mails.splice(0)
    const session = String(registered.body['token'])
    const resend = (token = session) => ask('POST /auth/email/resend', { token })
    const again = await Promise.all(Array.from({ length: 8 }, () => resend()))
    t.same(new Set(again.map(({ status, text }) => `${status} ${text}`)), new Set(['202 {"success":true}']))
    await opened.settled()
    t.match(mails, Array.from({ length: 3 }, () => ({ kind: 'verify', tenant: 'acme', to: email })), 'three within an hour')
    const { rows } = await sql<
      { line: string }
    >`select concat_ws(' ', tenant_id, target, user_id) as line from tenantry.audit_log where action = 'auth.email.resend'`.execute(app.db)
    t.same(rows.map(({ line }) => line), Array.from({ length: 3 }, () => `acme ${email} ${String(Object(registered.body['user']).id)}`))
    clock.forward(60 * minute)
    const current = String((await opened.logIn('acme', email)).body['token'])
    t.equal((await resend(current)).status, 202)
    await opened.settled()
    t.equal(mails.length, 4, 'and again an hour later')

    const verify = (mail: Parameters<typeof tokenOf>[0]) => ask('POST /auth/email/verify', { body: { token: tokenOf(mail) } })
    if (first === undefined || mails[3] === undefined) throw new Error('no mail was sent')
    refused(t, await verify(first), 400, 'LINK_INVALID', 'a newer link was sent')
    t.equal((await verify(mails[3])).status, 200)
    t.equal((await resend(current)).status, 202, 'a confirmed address')
    await opened.settled()
    t.equal(mails.length, 4, 'gets no mail')

    refused(t, await ask('POST /auth/email/resend'), 401, 'TOKEN_MISSING')
    refused(t, await ask('POST /auth/email/resend', { headers: { 'x-api-key': platformKey } }), 403, 'FORBIDDEN')
    refused(t, await resend(app.auth.sign({ sub: 'idp-ada', tenant_id: 'acme' })), 403, 'FORBIDDEN')
    refused(t, await ask('POST /auth/email/resend?x=1', { token: current }), 400, 'VALIDATION_FAILED')
  }))

test('an address gets at most three mails an hour from registrations, whose users are deleted again and again', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, clock, mails } = opened
  const register = async () => {
    t.equal((await ask('POST /auth/register', { tenant: 'acme', body: { email, password } })).status, 201)
    await opened.settled()
    await app.db.deleteFrom('tenantry.users').execute()
  }
  for (let count = 0; count < 5; count++) await register()
  t.equal(mails.length, 3)
  clock.forward(60 * minute)
  await register()
  t.equal(mails.length, 4)
})
