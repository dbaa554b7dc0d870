/** Audit entries of a user's account changes. */
import { sql } from 'kysely'
import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { password, wrong } from '../login/app.js'
import { open, tokenOf } from './app.js'

const email = 'ada@example.com'
const second = secretText('another horse battery staple', 'a second password')
const third = secretText('a third horse battery staple', 'a third password')
const address = '192.0.2.1'

test("a user's account changes are in the audit log, without tokens and passwords", (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme'] })
    const { app, ask, mails } = opened
    const headers = { 'x-forwarded-for': address }
    const registered = await ask('POST /auth/register', { tenant: 'acme', headers, body: { email, password } })
    t.equal(registered.status, 201)
    const id = String(Object(registered.body['user']).id)
    const token = String(registered.body['token'])
    const link = async () => {
      await opened.settled()
      const mail = mails.at(-1)
      return mail === undefined ? '' : tokenOf(mail)
    }
    const verifying = await link()
    t.equal((await ask('POST /auth/email/verify', { headers, body: { token: verifying } })).status, 200)
    refused(
      t,
      await ask('POST /auth/password', { token, headers, body: { currentPassword: wrong, password: second } }),
      401,
      'CREDENTIALS_INVALID'
    )
    t.equal((await ask('POST /auth/password', { token, headers, body: { currentPassword: password, password: second } })).status, 200)
    t.equal((await opened.forgot('acme', email, address)).status, 202)
    const resetting = await link()
    t.equal((await ask('POST /auth/password/reset', { headers, body: { token: resetting, password: third } })).status, 200)
    refused(t, await opened.logIn('acme', email, second, address), 401, 'CREDENTIALS_INVALID')
    t.equal((await opened.logIn('acme', email, third, address)).status, 200)

    const { rows } = await sql<
      { line: string, entry: string }
    >`select concat_ws(' ', action, outcome, target, coalesce(user_id, '-'), address) as line, to_json(a)::text as entry
    from tenantry.audit_log a where tenant_id = 'acme' and action like 'auth.%' order by id`.execute(app.db)
    t.strictSame(rows.map(({ line }) => line), [
      `auth.register success ${email} - ${address}`,
      `auth.email.verify success ${email} ${id} ${address}`,
      `auth.password.change failure ${email} ${id} ${address}`,
      `auth.password.change success ${email} ${id} ${address}`,
      `auth.password.forgot success ${email} - ${address}`,
      `auth.password.reset success ${email} ${id} ${address}`,
      `auth.login failure ${email} - ${address}`,
      `auth.login success ${email} ${id} ${address}`
    ])
    const text = rows.map(({ entry }) => entry).join('')
    for (const secret of [token, verifying, resetting, password, second, third]) t.notOk(text.includes(secret.slice(-20)))
  }))
