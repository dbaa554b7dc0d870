/** `POST /auth/email/verify` beside requests that end the user's links. */
import { sql } from 'kysely'
import { test } from 'tap'
import { untilBlocked } from '../../helpers/locks.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refused, type Reply } from '../../http/caller.js'
import { addUser, password } from '../login/app.js'
import { open, tokenOf } from './app.js'

const next = secretText('another horse battery staple', 'a new password')

test('a link that verifies an address does not deadlock with a change of the password or the end of the user', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, mails } = opened
  await addUser(app, 'acme', 'boss@example.com', 'admin')
  const admin = String((await opened.logIn('acme', 'boss@example.com')).body['token'])
  /** `change` has changed the user and waits before it removes the user's links; the link is used then. */
  const race = async (name: string, change: (user: { readonly id: string, readonly token: string }) => Promise<Reply>) => {
    const address = `${name.replaceAll(' ', '-')}@example.com`
    const { body } = await ask('POST /auth/register', { tenant: 'acme', body: { email: address, password } })
    await opened.settled()
    const [mail] = mails.splice(0)
    if (mail === undefined) throw new Error('no mail was sent')
    const { changed, verified } = await app.db.transaction().execute(async (holder) => {
      await sql`lock table tenantry.revocations in exclusive mode`.execute(holder)
      const changed = change({ id: String(Object(body['user']).id), token: String(body['token']) })
      await untilBlocked(app.db, changed)
      const verified = ask('POST /auth/email/verify', { body: { token: tokenOf(mail) } })
      await untilBlocked(app.db, verified, 2)
      return { changed, verified }
    })
    t.equal((await changed).status, 200, name)
    refused(t, await verified, 400, 'LINK_INVALID', name)
  }
  await race('a change', ({ token }) => ask('POST /auth/password', { token, body: { currentPassword: password, password: next } }))
  await race('a disabled user', ({ id }) => ask(`PATCH /users/${id}`, { token: admin, body: { status: 'disabled' } }))
  await race('a deleted user', ({ id }) => ask(`DELETE /users/${id}`, { token: admin }))
})
