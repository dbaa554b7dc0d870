import { test } from 'tap'
import { refused } from '../../http/caller.js'
import { open, postgresSection } from '../auth/app.js'

interface TestRole {
  name: string
  permissions: string[]
  parentRole?: string
}

const role = (name: string, permissions: string[], parentRole?: string): TestRole => ({
  name,
  permissions,
  ...parentRole !== undefined && { parentRole }
})
const roles = [
  role('keeper', ['rbac:write', 'articles:read', 'files:*']),
  role('strong', ['billing:write']),
  role('strong-heir', [], 'strong'),
  role('weak', ['articles:read']),
  role('weak-heir', [], 'weak')
]
const saved = { enabled: true, defaultRole: 'weak', roles }
const put = (changes: object, ...changed: TestRole[]) =>
  ['PUT /tenant/rbac', {
    ...saved,
    roles: [...roles.filter(({ name }) => !changed.some((one) => one.name === name)), ...changed],
    ...changes
  }] as const

test('only administrators can grant permissions that they do not have, by any change', async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['tenant-rbac'] })
  const admin = as({ tenant_id: 'acme', role: 'admin' })
  const keeper = as({ tenant_id: 'acme', role: 'keeper' })
  const reset = async (changes: object = {}) => t.equal((await admin('PUT /tenant/rbac', { body: { ...saved, ...changes } })).status, 200)
  await reset()

  for (
    const [way, exceeding, [target, body]] of [
      ['a new role', 'billing:write', ['POST /tenant/rbac/roles', role('new', ['billing:write'])]],
      ['a wildcard over a permission that it has', 'articles:*', ['POST /tenant/rbac/roles', role('new', ['articles:*'])]],
      ['a parent', 'billing:write', ['POST /tenant/rbac/roles', role('new', [], 'strong')]],
      ['a grandparent', 'billing:write', ['POST /tenant/rbac/roles', role('new', [], 'strong-heir')]],
      ['its own role', '*', ['PUT /tenant/rbac/roles/keeper', { permissions: ['rbac:write', '*'] }]],
      ['another parent of its own role', 'billing:write', ['PUT /tenant/rbac/roles/keeper', { parentRole: 'strong' }]],
      ['another parent of a role', 'billing:write', ['PUT /tenant/rbac/roles/weak-heir', { parentRole: 'strong-heir' }]],
      ['a role that others inherit from', 'secrets:write', ['PUT /tenant/rbac/roles/weak', { permissions: ['secrets:write'] }]],
      ['more permissions of a strong role', 'billing:*', ['PUT /tenant/rbac/roles/strong', { permissions: ['billing:*'] }]],
      ['the default role', 'billing:write', put({ defaultRole: 'strong' })],
      ['a child role as the default role', 'billing:write', put({ defaultRole: 'strong-heir' })],
      ['the whole', 'secrets:write', put({}, role('weak', ['secrets:write']))],
      ['a parent in a full replacement', 'billing:write', put({}, role('weak', [], 'strong'))],
      [
        'a grandparent in a full replacement',
        'billing:write',
        put({}, role('weak', ['articles:read'], 'keeper'), role('keeper', ['rbac:write'], 'strong'))
      ],
      ['a permission that moves from one role to another', 'billing:write', put({}, role('strong', []), role('weak', ['billing:write']))]
    ] as const
  ) {
    const response = await keeper(target, { body })
    refused(t, response, 403, 'GRANT_EXCEEDS', way)
    t.match(response.body, { permission: exceeding }, way)
  }
  t.same((await admin('GET /tenant/rbac')).body, saved, 'nothing was changed')

  for (
    const [way, [target, body]] of [
      ['its own permissions', ['POST /tenant/rbac/roles', role('new', ['articles:read', 'files:read', 'files:*'], 'weak')]],
      ['fewer permissions that it does not have', ['PUT /tenant/rbac/roles/strong', { permissions: [] }]],
      ['the description of a strong role', ['PUT /tenant/rbac/roles/strong', { description: 'Pays' }]],
      ['a strong role without its parent', ['PUT /tenant/rbac/roles/strong-heir', { parentRole: null }]],
      ["the same permission under the role's name for it", ['PUT /tenant/rbac/roles/strong-heir', { permissions: ['billing:write'] }]],
      ['an unchanged replacement', put({})],
      ['disabled roles', put({ enabled: false })]
    ] as const
  ) {
    await reset()
    t.ok((await keeper(target, { body })).status < 300, way)
  }
})

test('disabled roles and users of deleted roles are no bypass', async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['tenant-rbac'] })
  const admin = as({ tenant_id: 'acme', role: 'admin' })
  const keeper = as({ tenant_id: 'acme', role: 'weak', permissions: ['rbac:write'] })
  await admin('PUT /tenant/rbac', { body: { ...saved, enabled: false } })
  refused(t, await keeper('PUT /tenant/rbac', { body: { ...saved, enabled: true } }), 403, 'GRANT_EXCEEDS', 'enabling all roles')
  refused(
    t,
    await keeper('POST /tenant/rbac/roles', { body: role('new', ['billing:write']) }),
    403,
    'GRANT_EXCEEDS',
    'roles that an administrator would enable later'
  )

  t.equal((await admin('PUT /tenant/rbac', { body: { ...saved, defaultRole: 'strong' } })).status, 200)
  refused(
    t,
    await keeper('DELETE /tenant/rbac/roles/weak-heir'),
    403,
    'GRANT_EXCEEDS',
    'its users would get the default role, which is stronger'
  )
  t.equal((await keeper('DELETE /tenant/rbac/roles/strong-heir')).status, 200, 'its users lose nothing')
  t.equal(
    (await keeper('PUT /tenant/rbac', { body: { enabled: true, defaultRole: null, roles: [role('weak', ['articles:read'])] } })).status,
    200,
    'without a default role, no user gains permissions'
  )
})

test("a concurrent change cannot invalidate the basis of another's check", async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['tenant-rbac'] })
  const admin = as({ tenant_id: 'acme', role: 'admin' })
  for (let round = 0; round < 5; round++) {
    await admin('PUT /tenant/rbac', { body: { enabled: true, roles: [role('a', []), role('b', []), role('c', [])] } })
    const responses = await Promise.all([
      admin('PUT /tenant/rbac/roles/a', { body: { parentRole: 'b' } }),
      admin('PUT /tenant/rbac/roles/b', { body: { parentRole: 'a' } }),
      admin('DELETE /tenant/rbac/roles/c'),
      admin('POST /tenant/rbac/roles', { body: role('d', [], 'c') })
    ])
    const [first, second, third, fourth] = responses.map(({ status }) => status)
    t.same([first, second].sort(), [200, 400], 'a cycle of two changes')
    t.ok((third === 200 && fourth === 400) || (third === 409 && fourth === 201), 'a parent that is deleted while a child is added')
  }
  const same = await Promise.all(Array.from({ length: 5 }, () => admin('POST /tenant/rbac/roles', { body: role('once', []) })))
  t.same(same.map(({ status }) => status).sort(), [201, 409, 409, 409, 409])
})
