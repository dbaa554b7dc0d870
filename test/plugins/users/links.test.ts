/** Link tokens in the wrong hands, at the wrong time, and on several servers. */
import { type Test, test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refused, type Reply } from '../../http/caller.js'
import { addUser, password } from '../login/app.js'
import { open, type Opened, tokenOf } from '../passwords/app.js'

const boss = 'boss@example.com'
const email = 'ada@example.com'
const next = secretText('another horse battery staple', 'a new password')
const minute = 60_000 // ms

const paths = { reset: '/auth/password/reset', invite: '/auth/invite/accept', verify: '/auth/email/verify' } as const
type Kind = keyof typeof paths

const use = ({ ask }: Pick<Opened, 'ask'>, kind: Kind, token: string, request: object = {}) =>
  ask(`POST ${paths[kind]}`, { body: { token, ...kind !== 'verify' && { password: next } }, ...request })

async function tokenOfBoss ({ logIn }: Opened): Promise<string> {
  return String((await logIn('acme', boss)).body['token'])
}

/** Has a link of this kind sent, and returns its token. */
async function linkOf (t: Test, opened: Opened, kind: Kind, address: string, tenant = 'acme'): Promise<string> {
  const { ask, mails } = opened
  const before = mails.length
  switch (kind) {
    case 'reset':
      t.equal((await opened.forgot(tenant, address)).status, 202)
      break
    case 'verify':
      t.equal((await ask('POST /auth/register', { tenant, body: { email: address, password } })).status, 201)
      break
    case 'invite':
      t.equal((await ask('POST /users/invite', { token: await tokenOfBoss(opened), body: { email: address } })).status, 201)
  }
  await opened.settled()
  const mail = mails[before]
  if (mail === undefined) throw new Error('no mail was sent')
  return tokenOf(mail)
}

test('of parallel uses of one link on two servers, one succeeds', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine, { clock: here.clock, workers: 0 })
  await addUser(here.app, 'acme', boss, 'admin')
  await addUser(here.app, 'acme', 'reset@example.com')
  for (const [kind, success] of [['reset', 200], ['invite', 201], ['verify', 200]] as const) {
    const token = await linkOf(t, here, kind, `${kind}@example.com`)
    const responses = await Promise.all(Array.from({ length: 12 }, (_none, index) => use([here, there][index % 2]!, kind, token)))
    t.same(responses.map(({ status }) => status).sort(), [success, ...Array.from({ length: 11 }, () => 400)], kind)
    for (const response of responses) if (response.status === 400) refused(t, response, 400, 'LINK_INVALID', kind)
    refused(t, await use(there, kind, token), 400, 'LINK_INVALID', `${kind}: later`)
  }
  t.match(
    (await here.ask('GET /users', { token: await tokenOfBoss(here) })).body,
    { pagination: { total: 4 } },
    'an invitation creates one user'
  )
})

test('all invalid links get the same rejection: expired, modified, of another tenant, of another kind, or of a deleted tenant', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'] })
  const { app, clock } = opened
  await addUser(app, 'acme', boss, 'admin')
  await addUser(app, 'acme', 'reset@example.com')
  const refusals: Reply[] = []
  const fails = async (kind: Kind, token: string, label: string, request: object = {}) => {
    const response = await use(opened, kind, token, request)
    refused(t, response, 400, 'LINK_INVALID', `${kind} ${label}`)
    refusals.push(response)
  }
  const kinds: readonly Kind[] = ['reset', 'invite', 'verify']
  for (const kind of kinds) {
    const token = await linkOf(t, opened, kind, `${kind}@example.com`)
    await fails(kind, token.replace('lt_acme', 'lt_globex'), 'of another tenant')
    await fails(kind, token.replace('lt_acme', 'lt_nobody'), 'of no tenant')
    await fails(kind, token, 'with a header that names another tenant', { tenant: 'globex' })
    await fails(kind, `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`, 'with another last character')
    for (const other of kinds) if (other !== kind) await fails(other, token, `with the token of ${kind}`)
    clock.forward(30 * minute)
    await fails(kind, token, 'after 30 minutes')
  }
  clock.forward(30 * minute)
  const last = new Map<Kind, string>()
  for (const kind of kinds) last.set(kind, await linkOf(t, opened, kind, kind === 'reset' ? boss : `last-${kind}@example.com`))
  await app.tenants.delete('acme')
  for (const [kind, token] of last) await fails(kind, token, 'of a deleted tenant')
  t.equal(
    new Set(refusals.map(({ body: { message, code, error } }) => JSON.stringify([message, code, error]))).size,
    1,
    'with the same body'
  )
})

test('links end with their recipient, and invitations with their sender', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, clock, mails } = opened
  await addUser(app, 'acme', boss, 'admin')
  const change = async (id: string, ending: 'disabled' | 'deleted') => {
    const token = await tokenOfBoss(opened)
    const response = ending === 'disabled'
      ? await ask(`PATCH /users/${id}`, { token, body: { status: 'disabled' } })
      : await ask(`DELETE /users/${id}`, { token })
    t.equal(response.status, 200, ending)
  }
  for (const ending of ['disabled', 'deleted'] as const) {
    const address = `${ending}@example.com`
    const verify = await linkOf(t, opened, 'verify', address)
    const reset = await linkOf(t, opened, 'reset', address)
    const { body: { user } } = await opened.logIn('acme', address)
    await change(String(Object(user).id), ending)
    for (const [kind, token] of [['verify', verify], ['reset', reset]] as const) {
      refused(t, await use(opened, kind, token), 400, 'LINK_INVALID', `${kind} of a user who is ${ending}`)
    }
    if (ending === 'disabled') {
      const enable = (status: string) =>
        tokenOfBoss(opened).then((token) => ask(`PATCH /users/${String(Object(user).id)}`, { token, body: { status } }))
      t.equal((await enable('active')).status, 200)
      for (const [kind, token] of [['verify', verify], ['reset', reset]] as const) {
        refused(t, await use(opened, kind, token), 400, 'LINK_INVALID', `${kind} of a user who is enabled again`)
      }
      t.equal((await enable('disabled')).status, 200)
    }
    refused(t, await opened.logIn('acme', address, next), 401, 'CREDENTIALS_INVALID')
    const before = mails.length
    t.match(await opened.forgot('acme', address), { status: 202, body: { success: true } }, 'the response does not reveal it')
    await opened.settled()
    t.equal(mails.length, before, 'and no mail is sent')

    const author = await addUser(app, 'acme', `author-${ending}@example.com`, 'admin')
    const { body: { token: ofAuthor } } = await opened.logIn('acme', `author-${ending}@example.com`)
    t.equal(
      (await ask('POST /users/invite', { token: String(ofAuthor), body: { email: `friend-${ending}@example.com`, role: 'admin' } })).status,
      201
    )
    await opened.settled()
    const mail = mails.at(-1)
    await change(author, ending)
    refused(
      t,
      await use(opened, 'invite', mail === undefined ? '' : tokenOf(mail)),
      400,
      'LINK_INVALID',
      `an invitation whose sender is ${ending}`
    )
    clock.forward(60 * minute)
  }
})

test('an invitation reveals nothing about its address to anonymous callers', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask } = opened
  await addUser(app, 'acme', boss, 'admin')
  await addUser(app, 'acme', email)
  const token = await linkOf(t, opened, 'invite', 'new@example.com')
  const responses = [
    await use(opened, 'invite', `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`),
    await use(opened, 'invite', `lt_acme.${'A'.repeat(43)}`)
  ]
  t.equal(new Set(responses.map(({ status, body: { message, code } }) => JSON.stringify([status, message, code]))).size, 1)
  refused(
    t,
    await ask('POST /users/invite', { tenant: 'acme', body: { email } }),
    401,
    'TOKEN_MISSING',
    'an anonymous caller does not learn who is a user'
  )
  const { body: { token: ofAda } } = await opened.logIn('acme', email)
  refused(
    t,
    await ask('POST /users/invite', { token: String(ofAda), body: { email: boss } }),
    403,
    'FORBIDDEN',
    'nor does a user without the permission'
  )
})
