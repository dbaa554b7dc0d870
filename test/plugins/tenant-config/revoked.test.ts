import { type Test, test } from 'tap'
import { testApp } from '../../helpers/app.js'
import { fakeClock } from '../../helpers/clock.js'
import { holdInPause } from '../../helpers/pauses.js'
import { until } from '../../helpers/until.js'
import { type Ask, refused, type Reply, type Request } from '../../http/caller.js'
import { makeKey, rotateKey } from '../api-keys/key.js'
import { platformKey } from '../auth/app.js'

const second = 1000 // ms; the server checks an older identity again

async function open (t: Test) {
  const clock = fakeClock(Date.now())
  const { app, as } = await testApp(t, {
    plugins: {
      auth: { apiKey: platformKey, now: clock.now },
      tenancy: {},
      'rate-limit': {},
      openapi: {},
      'api-keys': {},
      'tenant-rbac': {},
      'tenant-config': {}
    },
    tenants: ['acme']
  })
  return {
    app,
    as,
    admin: as({ sub: 'admin', role: 'admin', tenant_id: 'acme' }),
    afterwards: async () => clock.forward(second + 1),
    versions: async () => (await app.db.selectFrom('tenantry.tenant_configs').select('version').execute()).length
  }
}

/** Saves a document. The changes are made while its check waits. */
async function saveDuring (t: Test, ask: Ask, changes: readonly (() => Promise<unknown>)[], request: Request = {}): Promise<Reply> {
  const held = holdInPause(t, 'acme')
  const saved = ask('POST /tenant/config', { ...request, body: { routes: [{ path: '/leak', method: 'get', response: {} }] } })
  await until('the check of the document waits', () => held.waiting() > 0)
  for (const change of changes) await change()
  held.end()
  return await saved
}

test('a save is refused if its API key was deleted or rotated during the check of the document', async (t) => {
  const { as, admin, afterwards, versions } = await open(t)
  const key = () => makeKey(t, admin, { scopes: ['config:write'] })
  const [kept, removed, rotated, removedEarlier] = [await key(), await key(), await key(), await key()]
  const remove = (id: string) => async () => t.equal((await admin(`DELETE /tenant/api-keys/${id}`)).status, 200)

  refused(t, await saveDuring(t, as(removed.key), [remove(removed.id)]), 401, 'TOKEN_INVALID', 'a deleted key')
  refused(t, await saveDuring(t, as(rotated.key), [() => rotateKey(t, admin, rotated.id)]), 401, 'TOKEN_INVALID', 'a rotated key')
  const late = await saveDuring(t, as(removedEarlier.key), [remove(removedEarlier.id), afterwards])
  refused(t, late, 401, 'TOKEN_INVALID', 'a key that was deleted more than a second ago')
  t.equal(await versions(), 0)

  t.equal((await saveDuring(t, as(kept.key), [afterwards])).status, 200, 'a key that was kept')
  t.equal(await versions(), 1)
})

test('a save is refused if its caller lost config:write during the check of the document', async (t) => {
  const { as, admin, afterwards, versions } = await open(t)
  const rbac = (permissions: readonly string[]) => async () => {
    const roles = [{ name: 'editor', permissions }]
    t.equal((await admin('PUT /tenant/rbac', { body: { enabled: true, roles } })).status, 200)
  }
  await rbac(['config:write'])()
  const editor = as({ sub: 'ed', role: 'editor', tenant_id: 'acme' })
  refused(t, await saveDuring(t, editor, [rbac([]), afterwards]), 403, 'FORBIDDEN')
  t.equal(await versions(), 0)
})

test('a save is refused if its tenant was deleted and created again during the check of the document', async (t) => {
  const { app, as, afterwards, versions } = await open(t)
  const platform = as(platformKey)
  const remove = () => app.tenants.delete('acme')
  const create = () => app.tenants.create({ id: 'acme', name: 'Another tenant' })
  const request = { tenant: 'acme' }
  refused(t, await saveDuring(t, platform, [remove], request), 404, 'TENANT_UNKNOWN', 'a deleted tenant')
  await create()
  refused(t, await saveDuring(t, platform, [remove, create], request), 404, 'TENANT_UNKNOWN', 'within a second')
  refused(t, await saveDuring(t, platform, [remove, create, afterwards], request), 404, 'TENANT_UNKNOWN', 'later')
  t.equal(await versions(), 0)
  t.equal((await saveDuring(t, platform, [], request)).status, 200, 'the tenant of now')
})
