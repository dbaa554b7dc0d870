/** API keys that act on users, and what they leave when they end. */
import { type Test, test } from 'tap'
import { untilBlocked } from '../../helpers/locks.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { type Ask, refused } from '../../http/caller.js'
import { type MadeKey, makeKey, rotateKey } from '../api-keys/key.js'
import { addUser, password } from '../login/app.js'
import { open as openWithMail, tokenOf } from '../passwords/app.js'

const boss = 'boss@example.com'
const all = { scopes: ['*'] }

async function open (t: Test) {
  const opened = await openWithMail(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, logIn, mails, settled } = opened
  await addUser(app, 'acme', boss, 'admin')
  const loggedIn = async (address: string): Promise<Ask> => {
    const token = secretText(String((await logIn('acme', address)).body['token']), 'a token')
    return (target, request) => ask(target, { token, ...request })
  }
  const admin = await loggedIn(boss)
  const holder = (key: string): Ask => (target, request) => ask(target, { headers: { 'x-api-key': key }, ...request })
  return {
    app,
    admin,
    /** Calls with the token of a user who logs in. */
    loggedIn,
    /** Calls with the key. */
    holder,
    remove: async (id: string) => t.equal((await admin(`DELETE /tenant/api-keys/${id}`)).status, 200),
    status: async ({ key }: MadeKey) => (await holder(key)('GET /users')).status,
    /** Invites an administrator; the returned function accepts. */
    async invite (by: Ask, address: string) {
      t.equal((await by('POST /users/invite', { body: { email: `${address}@example.com`, role: 'admin' } })).status, 201, address)
      await settled()
      const link = tokenOf(mails.at(-1)!)
      return () => ask('POST /auth/invite/accept', { body: { token: link, password } })
    }
  }
}

test('a deleted API key leaves no invitation and no key that it created or rotated', async (t) => {
  const { app, admin, holder, invite, remove, status } = await open(t)
  const leaked = await makeKey(t, admin, all)
  const thief = holder(leaked.key)
  const made = await makeKey(t, thief, all)
  const madeByMade = await makeKey(t, holder(made.key), all)
  const other = await makeKey(t, admin, all)
  const rotated = await makeKey(t, admin, all)
  const known = { id: rotated.id, key: await rotateKey(t, thief, rotated.id) }
  const accepts = {
    own: await invite(thief, 'own'),
    ofMade: await invite(holder(madeByMade.key), 'of-made'),
    ofOther: await invite(holder(other.key), 'of-other')
  }

  await remove(leaked.id.toUpperCase())

  refused(t, await accepts.own(), 400, 'LINK_INVALID', 'its invitation')
  refused(t, await accepts.ofMade(), 400, 'LINK_INVALID', 'an invitation of a key that it led to')
  t.equal((await accepts.ofOther()).status, 201, "another key's invitation")
  for (const key of [leaked, made, madeByMade, known]) t.equal(await status(key), 401)
  t.equal(await status(other), 200, 'another key')
  const entries = await app.db.selectFrom('tenantry.audit_log').select(['target', 'details']).where('action', '=', 'api_key.delete')
    .orderBy('id').execute()
  t.same(entries[0], { target: leaked.id, details: null })
  const others = [made.id, madeByMade.id, rotated.id].sort()
  t.same(entries.slice(1).map(({ target }) => target).sort(), others)
  for (const { details } of entries.slice(1)) t.same(details, { key: leaked.id })
})

test('a user cannot change or delete itself with its own keys', async (t) => {
  const { app, admin, holder, loggedIn } = await open(t)
  const id = await addUser(app, 'acme', 'mallory@example.com', 'admin')
  const other = await addUser(app, 'acme', 'ada@example.com')
  const mallory = await loggedIn('mallory@example.com')
  const created = await makeKey(t, mallory, all)
  const ofCreated = await makeKey(t, holder(created.key), all)
  const [rotated, rotatedByKey, foreign] = [await makeKey(t, admin, all), await makeKey(t, admin, all), await makeKey(t, admin, all)]
  const own = {
    created: created.key,
    ofCreated: ofCreated.key,
    rotated: await rotateKey(t, mallory, rotated.id),
    rotatedByKey: await rotateKey(t, holder(ofCreated.key), rotatedByKey.id)
  }
  const patch = async (by: Ask, user: string, role: string) => await by(`PATCH /users/${user}`, { body: { role } })
  t.equal((await patch(admin, id, 'user')).status, 200)

  for (const [name, key] of Object.entries(own)) {
    refused(t, await patch(holder(key), id.toUpperCase(), 'admin'), 403, 'FORBIDDEN', name)
    refused(t, await holder(key)(`DELETE /users/${id}`), 403, 'FORBIDDEN', name)
    t.equal((await patch(holder(key), other, `${name}-role`)).status, 200, 'another user')
  }
  t.match((await admin(`GET /users/${id}`)).body, { role: 'user' })
  t.equal((await patch(holder(foreign.key), id, 'admin')).status, 200, 'a key of another user')
})

test('a key that is rotated without a grace period leaves no invitation', async (t) => {
  const { admin, holder, invite } = await open(t)
  const [ended, graceful] = [await makeKey(t, admin, all), await makeKey(t, admin, all)]
  const accepts = { ended: await invite(holder(ended.key), 'ended'), graceful: await invite(holder(graceful.key), 'graceful') }
  await rotateKey(t, admin, ended.id)
  await rotateKey(t, admin, graceful.id, { gracePeriodDays: 1 })
  refused(t, await accepts.ended(), 400, 'LINK_INVALID')
  t.equal((await accepts.graceful()).status, 201, 'within the grace period')
})

test('a deletion of a key locks its rows in the order of the writer of uses', async (t) => {
  const { app, admin, holder, remove } = await open(t)
  let [parent, child] = await parentAndChild()
  while (child.id > parent.id) [parent, child] = await parentAndChild()
  let removed: Promise<unknown> | undefined
  await app.db.transaction().execute(async (writer) => {
    await writer.selectFrom('tenantry.api_keys').select('id').where('id', '=', child.id).forUpdate().execute()
    removed = remove(parent.id)
    await untilBlocked(app.db, removed)
    await writer.selectFrom('tenantry.api_keys').select('id').where('id', '=', parent.id).forUpdate().noWait().execute()
  })
  await removed

  async function parentAndChild (): Promise<[MadeKey, MadeKey]> {
    const made = await makeKey(t, admin, all)
    return [made, await makeKey(t, holder(made.key), all)]
  }
})
