import { test } from 'tap'
import { auditActions } from '../../../lib/database/audit.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, refused, type Reply } from '../../http/caller.js'

const value = secretText('a value that no entry reveals')
const tenants = [{ id: 'acme', plan: 'pro' }, { id: 'globex', plan: 'pro' }]
const address = '127.0.0.1'

/** The entries as `action target userId`, in order. */
function lines ({ body }: Reply): string[] {
  return (body.data ?? []).map(({ action, target, userId }) => [action, target ?? '-', userId ?? '-'].join(' '))
}

test("each tenant reads its own entries, and the platform reads the platform's", async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, {}, { engine, tenants })
  const as = (claims: Parameters<typeof signToken>[0]): Ask => caller(t, app, { token: signToken(claims) })
  const [ada, gus, ops] = [
    as({ sub: 'ada', role: 'admin', tenant_id: 'acme' }),
    as({ sub: 'gus', role: 'admin', tenant_id: 'globex', api_key: 'forged', provider: 'idp' }),
    as({ sub: 'ops', role: 'admin' })
  ]

  await ada('POST /tenant/secrets', { body: { key: 'K', value } })
  await ada('POST /tenant/secrets/K/rotate', { body: { newValue: value } })
  await ada('POST /tenant/rbac/roles', { body: { name: 'editor', permissions: ['notes:read', 'notes:write'] } })
  await ada('PUT /tenant/rbac/roles/editor', { body: { permissions: ['notes:*'] } })
  await ada('PUT /tenant/rbac', { body: { enabled: true, roles: [{ name: 'viewer', permissions: ['audit:read'] }] } })
  await ada('DELETE /tenant/rbac/roles/viewer')
  await ada('POST /tenant/config', { body: { settings: { a: 1 } } })
  const { body: { id, key } } = await ada('POST /tenant/api-keys', { body: { name: 'CI', scopes: ['secrets:write', 'audit:read'] } })
  const ci = caller(t, app, { headers: { 'x-api-key': String(key) } })
  await ci('DELETE /tenant/secrets/K')
  await ops('PUT /tenant/limits/resources', {
    tenant: 'acme',
    body: [{ resource: 'notes', metric: 'writes', limit: 5, period: 'day', gateAction: 'block' }]
  })
  await ada(`POST /tenant/api-keys/${String(id)}/rotate`, { body: { gracePeriodDays: 1 } })
  await ada(`DELETE /tenant/api-keys/${String(id)}`)
  await gus('POST /tenant/secrets', { body: { key: 'G', value } })
  await ops('POST /tenants', { body: { id: 'initech', name: 'Initech', plan: 'team' } })
  await ops('PATCH /tenants/initech', { body: { status: 'suspended' } })

  const own = await ada('GET /audit')
  t.strictSame(lines(own), [
    `api_key.delete ${String(id)} ada`,
    `api_key.rotate ${String(id)} ada`,
    'limits.save - ops',
    `secret.delete K api-key:${String(id)}`,
    `api_key.create ${String(id)} ada`,
    'config.save - ada',
    'role.delete viewer ada',
    'role.create viewer ada',
    'role.delete editor ada',
    'role.replace - ada',
    'role.update editor ada',
    'role.create editor ada',
    'secret.rotate K ada',
    'secret.create K ada'
  ])
  t.strictSame(own.body['pagination'], { limit: 20, offset: 0, total: 14 })
  const entries = new Map(own.body.data?.map((entry) => [entry['action'], entry]))
  for (const entry of entries.values()) {
    t.match(entry, { id: /^[0-9a-f-]{36}$/, timestamp: /^20.*Z$/, tenantId: 'acme', outcome: 'success', count: 1 })
    t.strictSame(Object.keys(entry).sort(), [
      'action',
      'address',
      'count',
      'details',
      'id',
      'outcome',
      'target',
      'tenantDeleted',
      'tenantId',
      'timestamp',
      'userId'
    ])
    t.equal(entry['address'], entry['userId'] === 'ops' ? null : address, "the platform's address is not shown to the tenant")
  }
  t.equal(new Set(own.body.data?.map((entry) => entry['id'])).size, 14)
  t.strictSame(
    ['api_key.create', 'secret.delete', 'role.create', 'role.update', 'role.replace', 'config.save', 'limits.save', 'secret.create'].map((
      action
    ) => entries.get(action)?.['details']),
    [
      { name: 'CI', scopes: ['secrets:write', 'audit:read'], expiresAt: null },
      { apiKey: id },
      { permissions: ['notes:read', 'notes:write'], parentRole: null },
      { permissions: ['notes:*'] },
      { enabled: true, defaultRole: null, roles: ['viewer'] },
      { version: 1 },
      { rules: 1 },
      null
    ]
  )
  t.notOk(own.text.includes(String(key)), 'the id of a key, never the key')

  const theirs = await gus('GET /audit')
  t.strictSame(lines(theirs), ['secret.create G gus'])
  t.notMatch(theirs.text, 'forged', 'a token is not a key, whatever it claims')
  t.strictSame(lines(await ops('GET /audit?limit=2', { tenant: 'acme' })), lines(own).slice(0, 2))
  const all = await ops('GET /audit?limit=100')
  t.equal(all.body.data?.length, 14 + 1 + 4, "with the test's own two tenants, which the server created")
  t.strictSame(
    all.body.data?.slice(0, 3).map(({ action, target, tenantId, details, address: from }) => [action, target, tenantId, details, from]),
    [
      ['tenant.update', 'initech', null, { status: 'suspended' }, address],
      ['tenant.create', 'initech', null, { name: 'Initech', plan: 'team' }, address],
      ['secret.create', 'G', 'globex', null, address]
    ]
  )

  await t.test('the creation of a tenant by a token is logged with its user', async (t) => {
    await as({ sub: 'una', tenant_id: 'umbrella' })('GET /tenant/info')
    await as({ sub: 'zoe', tenant_id: 'umbrella' })('GET /tenant/info')
    t.match((await ops('GET /audit?action=tenant.create&limit=1')).body, {
      data: [{ target: 'umbrella', userId: 'una', tenantId: null, address }],
      pagination: { total: 4 }
    })
    t.strictSame(lines(await as({ sub: 'una', role: 'admin', tenant_id: 'umbrella' })('GET /audit')), [], "the tenant's own log is empty")
  })

  await t.test('entries are filtered by time, action and user, in pages', async (t) => {
    t.strictSame(lines(await ada('GET /audit?action=secret.*')), [
      `secret.delete K api-key:${String(id)}`,
      'secret.rotate K ada',
      'secret.create K ada'
    ])
    t.strictSame(lines(await ada('GET /audit?action=role.replace')), ['role.replace - ada'])
    t.strictSame(lines(await ada('GET /audit?userId=ops')), ['limits.save - ops'])
    t.strictSame(lines(await ada('GET /audit?userId=ada&action=secret.*&limit=1&offset=1')), ['secret.create K ada'])
    t.match((await ada('GET /audit?userId=gus')).body, { data: { length: 0 }, pagination: { total: 0 } }, "another tenant's user")
    t.match((await ops('GET /audit?userId=gus&action=secret.create')).body, { data: [{ tenantId: 'globex' }], pagination: { total: 1 } })
    const middle = own.body.data?.[5]?.['timestamp']
    const earlier = own.body.data?.filter(({ timestamp }) => String(timestamp) < String(middle)).length
    t.match((await ada(`GET /audit?to=${String(middle)}`)).body, { pagination: { total: earlier } })
    t.match((await ada(`GET /audit?from=${String(middle)}`)).body, { pagination: { total: 14 - Number(earlier) } })
    const today = new Date().toISOString().slice(0, 10)
    t.match((await ada('GET /audit?from=0000-01-01&to=9999-12-31')).body, { pagination: { total: 14 } })
    t.match((await ada('GET /audit?from=9999-12-31&to=9999-12-31')).body, { data: { length: 0 }, pagination: { total: 0 } })
    t.match((await ada(`GET /audit?to=${today}&from=1969-01-01T00:00:00%2B14:00&limit=1&offset=13`)).body, {
      data: [{ action: 'secret.create' }],
      pagination: { limit: 1, offset: 13, total: 14 }
    })
    t.match((await ada('GET /audit?limit=1000&offset=10000')).body, { data: { length: 0 }, pagination: { limit: 100, offset: 10_000, total: 14 } })
  })

  await t.test('entries are filtered by target, outcome and, for the platform, tenant', async (t) => {
    t.strictSame(lines(await ada('GET /audit?target=K')), [
      `secret.delete K api-key:${String(id)}`,
      'secret.rotate K ada',
      'secret.create K ada'
    ])
    t.strictSame(lines(await ada('GET /audit?target=K&userId=ada&limit=1&offset=1')), ['secret.create K ada'])
    t.strictSame(lines(await ada('GET /audit?target=G')), [], "another tenant's target")
    t.match((await ada('GET /audit?outcome=success')).body.pagination, { total: 14 })
    t.match((await ada('GET /audit?outcome=failure')).body, { data: { length: 0 }, pagination: { total: 0 } })
    await app.audit.record({
      tenant: 'acme',
      action: 'secret.create',
      actor: { userId: 'eve', address: null },
      target: 'F',
      outcome: 'failure'
    })
    await app.audit.record({
      tenant: 'globex',
      action: 'secret.create',
      actor: { userId: 'eve', address: null },
      target: 'F',
      outcome: 'failure'
    })
    t.strictSame(lines(await ada('GET /audit?outcome=failure')), ['secret.create F eve'])
    t.strictSame(lines(await ada('GET /audit?outcome=failure&action=secret.*&target=F&userId=eve')), ['secret.create F eve'])
    t.strictSame(lines(await ops('GET /audit?outcome=failure')), ['secret.create F eve', 'secret.create F eve'])
    t.match((await ops('GET /audit?outcome=failure&tenantId=globex')).body, { data: [{ tenantId: 'globex' }], pagination: { total: 1 } })
    t.strictSame(lines(await ops('GET /audit?target=initech')), ['tenant.update initech ops', 'tenant.create initech ops'])
    t.match((await ops('GET /audit?tenantId=acme')).body.pagination, { total: 15 })
    t.match((await ops('GET /audit?tenantId=unknown')).body, { data: { length: 0 }, pagination: { total: 0 } })
    for (const query of ['tenantId=globex', 'tenantId=acme']) {
      refused(t, await ada(`GET /audit?${query}`), 403, 'FORBIDDEN', `${query} of a tenant's administrator`)
    }
    refused(t, await ops('GET /audit?tenantId=acme', { tenant: 'globex' }), 400, 'VALIDATION_FAILED', 'together with the header')
    refused(t, await ops('GET /audit?tenantId=acme&deletedTenant=acme'), 400, 'VALIDATION_FAILED', 'together with a deleted tenant')
    await app.db.deleteFrom('tenantry.audit_log').where('target', '=', 'F').execute()
  })

  await t.test('invalid filters are rejected', async (t) => {
    for (
      const query of [
        'limit=0',
        'limit=x',
        'offset=-1',
        'offset=10001',
        'offset=1.5',
        'offset=1e99',
        'action=',
        'action=*',
        'action=secret',
        'action=secret.',
        'action=secret.%25',
        'action=constructor',
        "action=secret.create'%20or%20true--",
        'action=secret.create&action=role.create',
        'userId=',
        'userId=a&userId=b',
        `userId=${'x'.repeat(1025)}`,
        'from=yesterday',
        'from=2026-02-30',
        'to=1',
        'to=',
        'from=+010000-01-01',
        'from=2026-02-02&to=2026-01-01',
        'tenant_id=globex',
        'target=',
        'target=a&target=b',
        `target=${'x'.repeat(1025)}`,
        'outcome=failed',
        'outcome=',
        'tenantId=',
        'tenantId=a.b',
        'tenantId=~globex'
      ]
    ) {
      refused(t, await ada(`GET /audit?${query}`), 400, 'VALIDATION_FAILED', query)
    }
    t.match(
      (await ada('GET /audit?action=nothing')).body.details,
      [{ message: new RegExp(`${auditActions[0]}.*secret\\.\\*`) }],
      'the message lists the allowed values'
    )
    for (const userId of ['%00', 'ada%00', '%25', '%ED%A0%80', 'a%5C', '%7Bada%7D', '%22']) {
      const { status, body } = await ada(`GET /audit?userId=${userId}`)
      t.ok(status === 400 || body.data?.length === 0, `${userId}: ${status}`)
    }
    t.strictSame(lines(await ada("GET /audit?userId='%20or%20'1'='1")), [])
  })

  await t.test('other callers and other methods are rejected', async (t) => {
    refused(t, await caller(t, app)('GET /audit'), 401, 'TOKEN_MISSING')
    refused(t, await caller(t, app)('GET /audit', { tenant: 'acme' }), 401, 'TOKEN_MISSING')
    refused(t, await as({ tenant_id: 'acme' })('GET /audit?limit=x'), 403, 'FORBIDDEN', 'a user, before the query is validated')
    refused(t, await as({ sub: 'nobody' })('GET /audit'), 403, 'FORBIDDEN')
    refused(t, await gus('GET /audit', { tenant: 'acme' }), 403, 'TENANT_MISMATCH', "another tenant's administrator")
    refused(t, await as({ role: 'admin', tenant_id: 'initech' })('GET /audit'), 403, 'TENANT_SUSPENDED')
    refused(t, await ops('GET /audit', { tenant: 'nobody' }), 404, 'TENANT_UNKNOWN')
    refused(
      t,
      await as({ sub: 'eve', permissions: ['audit:read'] })('GET /audit'),
      400,
      'TENANT_REQUIRED',
      'only platform administrators read all entries'
    )
    t.strictSame(lines(await as({ sub: 'rea', tenant_id: 'globex', permissions: ['audit:read'] })('GET /audit')), ['secret.create G gus'])
    const one = String(own.body.data?.[0]?.['id'])
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      for (const path of ['/audit', `/audit/${one}`]) {
        t.match(await ops(`${method} ${path}`, { body: {} }), { status: /404|405/ }, `${method} ${path}`)
      }
    }
    t.match((await ada('GET /audit')).body, { pagination: { total: 14 } })
  })

  await t.test("only the platform reads a deleted tenant's entries, not a new tenant with its id", async (t) => {
    t.equal((await ops('DELETE /tenants/globex')).status, 200)
    const { body } = await ops('GET /audit?limit=100')
    t.match(body.data?.filter(({ tenantId }) => tenantId === 'globex'), [{
      action: 'secret.create',
      target: 'G',
      userId: 'gus',
      tenantDeleted: true
    }])
    t.equal(body.data?.filter(({ tenantDeleted }) => tenantDeleted === true).length, 1)
    const archived = await ops('GET /audit?deletedTenant=globex')
    t.strictSame(lines(archived), ['secret.create G gus'])
    t.match(archived.body, { data: [{ tenantId: 'globex', tenantDeleted: true }], pagination: { total: 1 } })
    t.strictSame(lines(await ops('GET /audit?deletedTenant=acme')), [], 'a tenant that was not deleted')
    t.strictSame(lines(await ops('GET /audit?deletedTenant=globex&action=secret.*&userId=ada')), [])
    refused(t, await ops('GET /audit?deletedTenant=globex', { tenant: 'acme' }), 400, 'VALIDATION_FAILED')
    refused(t, await ops('GET /audit?deletedTenant=~globex'), 400, 'VALIDATION_FAILED')
    refused(t, await ada('GET /audit?deletedTenant=globex'), 403, 'FORBIDDEN', "another tenant's administrator")
    refused(t, await as({ sub: 'eve', permissions: ['audit:read'] })('GET /audit?deletedTenant=globex'), 403, 'FORBIDDEN')
    refused(
      t,
      await as({ sub: 'gus', role: 'admin', tenant_id: '~globex' })('GET /audit'),
      401,
      'TOKEN_INVALID',
      "the archive's tenant_id"
    )
    t.match(body.data?.filter(({ tenantId }) => tenantId === null), [{
      action: 'tenant.delete',
      target: 'globex',
      userId: 'ops',
      tenantId: null
    }, { action: 'tenant.update', target: 'globex', details: { status: 'deleting' } }])
    refused(t, await ops('DELETE /tenants/globex'), 404, 'TENANT_UNKNOWN')
    await ops('POST /tenants', { body: { id: 'globex', name: 'Another' } })
    t.match((await ops('GET /audit', { tenant: 'globex' })).body, { data: { length: 0 }, pagination: { total: 0 } })
    const again = as({ sub: 'gus', role: 'admin', tenant_id: 'globex', iat: Math.floor(Date.now() / 1000) + 2 })
    t.strictSame(lines(await again('GET /audit')), [])
    refused(t, await again('GET /audit?deletedTenant=globex'), 403, 'FORBIDDEN')
    t.strictSame(lines(await ops('GET /audit?deletedTenant=globex')), ['secret.create G gus'])
    t.match((await ops('GET /audit?action=tenant.delete')).body, { pagination: { total: 1 } })
  })
})

test('a failed operation leaves no entry, and an operation that cannot be audited fails', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const app = await testServer(t, {}, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants })
  const ada = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const ops = caller(t, app, { token: signToken({ sub: 'ops', role: 'admin' }) })
  await ada('POST /tenant/rbac/roles', { body: { name: 'editor', permissions: [] } })
  const before = await query('select id from tenantry.audit_log order by id')
  for (
    const [target, body] of [
      ['POST /tenant/rbac/roles', { name: 'editor', permissions: [] }],
      ['PUT /tenant/rbac/roles/nobody', { permissions: [] }],
      ['DELETE /tenant/rbac/roles/nobody', undefined],
      ['PUT /tenant/rbac', { enabled: true, defaultRole: 'nobody', roles: [] }],
      ['DELETE /tenant/secrets/none', undefined],
      ['POST /tenant/secrets', { key: 'K', value: '' }],
      ['POST /tenant/secrets/none/rotate', { newValue: value }],
      ['DELETE /tenant/api-keys/00000000-0000-4000-8000-000000000000', undefined],
      ['POST /tenant/config', { routes: 1 }],
      ['PUT /tenant/limits/resources', [{}]]
    ] as const
  ) t.match(await ada(target, { body }), { status: /4\d\d/ }, target)
  t.match(await ada('POST /tenant/config?dryRun=true', { body: {} }), { status: 200 })
  t.match(await ops('POST /tenants', { body: { id: 'acme', name: 'x' } }), { status: 409 })
  t.match(await ops('PATCH /tenants/nobody', { body: { name: 'x' } }), { status: 404 })
  t.match(await ops('DELETE /tenants/nobody'), { status: 404 })
  t.match(await ops('POST /migration/apply'), { body: { applied: { length: 0 } } })
  t.strictSame(await query('select id from tenantry.audit_log order by id'), before)

  await ada('POST /tenant/secrets', { body: { key: 'OLD', value } })
  const { body: { id: key } } = await ada('POST /tenant/api-keys', { body: { name: 'old' } })
  await query('alter table tenantry.audit_log add constraint none check (false) not valid')
  const state = () =>
    query(
      `select (select jsonb_agg(to_jsonb(s) - 'last_accessed_at' order by key) from tenantry.secrets s) as secrets, (select jsonb_agg(to_jsonb(k) order by id) from tenantry.api_keys k) as keys,
    (select jsonb_agg(to_jsonb(r) order by name) from tenantry.tenant_roles r) as roles, (select count(*) from tenantry.tenant_configs) as configs, (select count(*) from tenantry.resource_limits) as limits,
    (select jsonb_agg(to_jsonb(t) order by id) from tenantry.tenants t) as tenants`
    )
  const kept = await state()
  const refusals: [Ask, string, unknown][] = [
    [ada, 'POST /tenant/secrets', { key: 'K', value }],
    [ada, 'POST /tenant/secrets', { key: 'OLD', value }],
    [ada, 'POST /tenant/secrets/OLD/rotate', { newValue: value }],
    [ada, 'DELETE /tenant/secrets/OLD', undefined],
    [ada, 'POST /tenant/api-keys', { name: 'x' }],
    [ada, `POST /tenant/api-keys/${String(key)}/rotate`, {}],
    [ada, `DELETE /tenant/api-keys/${String(key)}`, undefined],
    [ada, 'POST /tenant/rbac/roles', { name: 'other', permissions: [] }],
    [ada, 'DELETE /tenant/rbac/roles/editor', undefined],
    [ada, 'POST /tenant/config', {}],
    [ada, 'PUT /tenant/limits/resources', []],
    [ops, 'POST /tenants', { id: 'initech', name: 'x' }],
    [ops, 'PATCH /tenants/acme', { name: 'y' }],
    [ops, 'DELETE /tenants/acme', undefined],
    [caller(t, app, { token: signToken({ tenant_id: 'umbrella' }) }), 'GET /tenant/info', undefined]
  ]
  for (const [ask, target, body] of refusals) t.match(await ask(target, { body }), { status: /4\d\d/ }, target)
  t.strictSame(await state(), kept, 'nothing was changed')
})
