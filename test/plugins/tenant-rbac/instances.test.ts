import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import type { Topic } from '../../../lib/database/events.js'
import { makeKey, rotateKey } from '../api-keys/key.js'
import { open, postgresSection, statuses } from '../auth/app.js'

const admin = { role: 'admin', tenant_id: 'acme' }

/** Resolves when the server receives a change. */
function heard (app: FastifyInstance, topic: Topic): Promise<void> {
  return new Promise((resolve) => {
    const end = app.events.on(topic, () => {
      end()
      resolve()
    })
  })
}

test('a server knows the changes of roles and keys that another one made', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine)
  const acme = here.as(admin)
  // One token each, used twice: its permissions are cached with it once its roles are loaded.
  const [hereEditor, thereEditor] = [here, there].map(({ as }) => {
    const editor = as({ tenant_id: 'acme', role: 'editor' })
    return async () => [await statuses(editor, '/write'), await statuses(editor, '/write')].map((found) => found['/write'])
  })

  t.same([await hereEditor?.(), await thereEditor?.()], [[403, 403], [403, 403]])
  for (const [permissions, expected] of [[['articles:write'], 200], [[], 403]] as const) {
    const notified = heard(there.app, 'roles')
    await acme('PUT /tenant/rbac', { body: { enabled: true, roles: [{ name: 'editor', permissions }] } })
    t.same(await hereEditor?.(), [expected, expected], 'at once where it was changed')
    await notified
    t.same(await thereEditor?.(), [expected, expected], 'on the other server')
  }

  const status = async (key: string) => (await there.as(key)('GET /who')).status
  const { id, key } = await makeKey(t, acme)
  t.equal(await status(key), 200, 'a new key that the other server did not know')
  const next = await makeKey(t, acme)
  t.equal(await status(next.key), 200, "another one, when the tenant's keys are cached there")
  const rotated = heard(there.app, 'api-keys')
  const second = await rotateKey(t, acme, id)
  await rotated
  t.same([await status(key), await status(second)], [401, 200])
  const ended = heard(there.app, 'api-keys')
  await acme(`DELETE /tenant/api-keys/${id}`)
  await ended
  t.same([await status(second), await status(next.key)], [401, 200])
})

test('each plugin works without the other, and names its missing dependencies', async (t) => {
  const engine = await postgresSection(t)
  const keys = await open(t, engine, { tenants: ['acme'], plugins: ['api-keys'] })
  const { key } = await makeKey(t, keys.as(admin), { scopes: ['articles:read'] })
  t.same(await statuses(keys.as(key), '/read', '/write'), { '/read': 200, '/write': 403 })
  const roles = await open(t, engine, { plugins: ['tenant-rbac'] })
  await roles.as(admin)('PUT /tenant/rbac', {
    body: { enabled: true, defaultRole: 'reader', roles: [{ name: 'reader', permissions: ['articles:read'] }] }
  })
  t.same(await statuses(roles.as({ tenant_id: 'acme' }), '/read', '/write'), { '/read': 200, '/write': 403 })
  t.equal((await roles.as(key)('GET /who')).status, 401, 'tenant keys are unknown')
})
