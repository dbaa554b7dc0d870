/** Two processes on one PostgreSQL: each serves the other's changes, and an acknowledged change survives the process. */
import { type Test, test } from 'tap'
import { isRecord } from '../../../lib/json/plain-value.js'
import { startInstances } from '../../helpers/instances.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase, type RunSql } from '../../helpers/postgres.js'
import type { Program } from '../../helpers/program.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, remoteCaller, type Request } from '../caller.js'
import { platformDocument, type Routes, save, tokenOf } from './world.js'

const routes = (version: number, more: Routes = []): Routes => [
  { method: 'get', path: '/version', response: { version } },
  { method: 'get', path: '/guarded', requiredPermissions: ['notes:read'], response: { ok: true } },
  {
    method: 'get',
    path: '/use',
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: '{{secret:KEY}}' }] }]
  },
  ...more
]

const secret = (name: string) => secretText(`the value of a secret, ${name}`)

test('two instances', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const [one, two] = await startInstances(t, platformDocument, { provider: 'postgres', postgres: { connectionString } })
  if (one === undefined || two === undefined) throw new Error('there are two')
  await t.test('a change at one instance', (t) => changes(t, one, two, query))
  await t.test('acknowledged changes survive a kill', (t) => outlives(t, one, two))
})

async function changes (t: Test, one: Program, two: Program, query: RunSql): Promise<void> {
  const as = (request: Request): [Ask, Ask] => [remoteCaller(t, one.address, request), remoteCaller(t, two.address, request)]
  const root = as({ token: signToken({ sub: 'root', role: 'admin' }) })
  const admin = as({ token: tokenOf('acme') })
  const user = as({ token: tokenOf('acme', { role: 'reader' }) })
  t.match(await root[0]('POST /tenants', { body: { id: 'acme', name: 'acme', plan: 'pro' } }), { status: 201 })
  t.match(await admin[1]('GET /tenant/info'), { status: 200, body: { plan: 'pro' } }, 'the other instance knows a new tenant at once')

  /** Data that both instances have cached. */
  const warm = async () => {
    for (const ask of [...admin, ...user]) {
      for (const target of ['GET /version', 'GET /guarded', 'GET /use', 'GET /tenant/info']) await ask(target)
    }
  }
  let version = 1
  await save(t, admin[0], routes(version))
  await admin[0]('POST /tenant/secrets', { body: { key: 'KEY', value: secret('1') } })
  await warm()

  const isServed = (ask: Ask, expected: number) => async () => (await ask('GET /version')).body['version'] === expected

  await t.test('a changed document reaches the other instance', async (t) => {
    for (const [here, there] of [[0, 1], [1, 0], [0, 1]] as const) {
      await save(t, admin[here], routes(++version))
      t.equal(await isServed(admin[here], version)(), true, 'the instance that saved it serves it at once')
      await until('a document', isServed(admin[there], version))
    }
    const more: Routes = [{ method: 'get', path: '/more', response: { said: '{{tenant.config.said}}' } }]
    await save(t, admin[0], routes(version, more), { settings: { said: 'hello' } })
    await until('a new route and settings', async () => (await admin[1]('GET /more')).body['said'] === 'hello')
    await save(t, admin[1], routes(version))
    await until('the removal of a route', async () => (await admin[0]('GET /more')).status === 404)
  })

  await t.test('a changed secret reaches the other instance', async (t) => {
    const used = (ask: Ask, value: string) => async () => (await ask('GET /use')).body.data?.[0]?.['title'] === value
    for (const name of ['1', '2', '3']) await query("insert into notes (tenant_id, title) values ('acme', $1)", [secret(name)])
    t.equal(await used(admin[1], secret('1'))(), true)
    await admin[0]('POST /tenant/secrets', { body: { key: 'KEY', value: secret('2') } })
    t.equal(await used(admin[0], secret('2'))(), true, 'the instance that stored it uses it at once')
    await until('a secret', used(admin[1], secret('2')))
    t.match(await admin[1]('POST /tenant/secrets/KEY/rotate', { body: { newValue: secret('3'), gracePeriodDays: 1 } }), { status: 200 })
    await until('a rotated secret', used(admin[0], secret('3')))
    t.match(await admin[0]('DELETE /tenant/secrets/KEY'), { status: 200 })
    await until('a deleted secret', async () => (await admin[1]('GET /use')).body.data?.length === 0)
  })

  await t.test('a changed role reaches the other instance', async (t) => {
    const may = (ask: Ask, expected: number) => async () => (await ask('GET /guarded')).status === expected
    t.equal(await may(user[1], 403)(), true)
    t.match(await admin[0]('PUT /tenant/rbac', { body: { enabled: true, roles: [{ name: 'reader', permissions: ['notes:read'] }] } }), {
      status: 200
    })
    t.equal(await may(user[0], 200)(), true, 'it applies at once where it was created')
    await until('a role', may(user[1], 200))
    t.match(await admin[1]('PUT /tenant/rbac/roles/reader', { body: { permissions: [] } }), { status: 200 })
    await until('a role that lost a permission', may(user[0], 403))
    t.match(await admin[0]('PUT /tenant/rbac/roles/reader', { body: { permissions: ['notes:*'] } }), { status: 200 })
    await until('a wildcard', may(user[1], 200))
    t.match(await admin[0]('DELETE /tenant/rbac/roles/reader'), { status: 200 })
    await until('a deleted role', may(user[1], 403))
  })

  await t.test('a changed API key reaches the other instance', async (t) => {
    const { body: { id, key } } = await admin[0]('POST /tenant/api-keys', { body: { name: 'one', scopes: ['notes:read'] } })
    const holder = as({ headers: { 'x-api-key': String(key) } })
    t.match(await holder[0]('GET /guarded'), { status: 200 })
    await until('a new key', async () => (await holder[1]('GET /guarded')).status === 200)
    const { body: { key: next } } = await admin[1](`POST /tenant/api-keys/${String(id)}/rotate`, { body: {} })
    const after = as({ headers: { 'x-api-key': String(next) } })
    await until('a rotated key', async () => (await after[0]('GET /guarded')).status === 200)
    await until('the end of the previous key', async () => (await holder[0]('GET /guarded')).status === 401)
    t.match(await admin[0](`DELETE /tenant/api-keys/${String(id)}`), { status: 200 })
    t.equal((await after[0]('GET /guarded')).status, 401, 'it is rejected at once where it was deleted')
    await until('a deleted key', async () => (await after[1]('GET /guarded')).status === 401)
  })

  await t.test('a changed tenant reaches the other instance', async () => {
    await root[0]('PATCH /tenants/acme', { body: { plan: 'team' } })
    await until('a plan', async () => (await admin[1]('GET /tenant/info')).body['plan'] === 'team')
    await root[1]('PATCH /tenants/acme', { body: { status: 'suspended' } })
    await until('a suspension', async () => (await admin[0]('GET /version')).status === 403)
    await root[0]('PATCH /tenants/acme', { body: { status: 'active' } })
    await until('its end', async () => (await admin[1]('GET /version')).status === 200)
  })

  await t.test('a broken notification connection is re-established', async (t) => {
    const notices = "from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'"
    const cut = () => query(`select pg_terminate_backend(pid) ${notices}`)
    await warm()
    for (let round = 0; round < 3; round++) {
      const lost = await cut()
      t.equal(lost.length, 2, 'each instance was listening')
      // Immediately, while the other instance may not know yet.
      await save(t, admin[0], routes(++version))
      await until('a document saved meanwhile', isServed(admin[1], version))
      await until('it listens again', async () => (await query(`select count(*)::int as n ${notices}`))[0]?.['n'] === 2)
    }
    await save(t, admin[1], routes(++version))
    await until('a document afterwards', isServed(admin[0], version))
    await query('select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()')
    await until('all connections are re-established', async () => (await admin[0]('GET /tenant/config')).status === 200)
    await save(t, admin[0], routes(++version))
    await until('a document after all connections were lost', isServed(admin[1], version))
  })

  await t.test('a deleted tenant reaches the other instance', async (t) => {
    await warm()
    t.match(await root[0]('DELETE /tenants/acme'), { status: 200 })
    await until('a deleted tenant', async () => [403, 404].includes((await admin[1]('GET /version')).status))
    t.match(await root[1]('POST /tenants', { body: { id: 'acme', name: 'another' } }), { status: 201 })
    await until(
      'a new tenant with its id',
      async () => (await remoteCaller(t, one.address, { token: tokenOf('acme') })('GET /tenant/info')).body['name'] === 'another'
    )
    for (const ask of as({ token: tokenOf('acme') })) {
      t.match(await ask('GET /version'), { status: 404 }, 'the new tenant has no routes')
      t.same((await ask('GET /tenant/secrets')).body, { secrets: [], pagination: { limit: 20, offset: 0, total: 0 } })
      t.same((await ask('GET /platform/notes')).body.data, [])
    }
  })
}

async function outlives (t: Test, survivor: Program, victim: Program): Promise<void> {
  const ask = remoteCaller(t, survivor.address, { token: tokenOf('lasting') })
  await remoteCaller(t, survivor.address, { token: signToken({ sub: 'root', role: 'admin' }) })('POST /tenants', {
    body: { id: 'lasting', name: 'lasting', plan: 'enterprise' }
  })

  const doomed = remoteCaller(t, victim.address, { token: tokenOf('lasting') })
  const fate = { killed: false }
  const acknowledged = { version: 0, secrets: [] as string[], roles: [] as string[], keys: [] as string[] }
  /** One request at a time until the server is gone. A request without a response may or may not have taken effect. */
  const stream = async (work: (index: number) => Promise<void>) => {
    for (let index = 0; !fate.killed || index === 0; index++) {
      try {
        await work(index)
      } catch (error) {
        if (!fate.killed) throw error
        return
      }
    }
  }
  const succeed = async (target: string, body: unknown) => {
    const response = await doomed(target, { body })
    if (response.status >= 300) t.fail(`${target}: ${response.status} ${response.text}`)
    return response
  }
  const streams = [
    stream(async (index) => {
      acknowledged.version = Number((await succeed('POST /tenant/config', { routes: routes(index) })).body['version'])
    }),
    stream(async (index) => {
      acknowledged.secrets.push(
        String((await succeed('POST /tenant/secrets', { key: `K${index}`, value: `a value that is kept ${index}` })).body['key'])
      )
    }),
    stream(async (index) => {
      acknowledged.roles.push(
        String((await succeed('POST /tenant/rbac/roles', { name: `r${index}`, permissions: ['notes:read'] })).body['name'])
      )
    }),
    stream(async (index) => {
      acknowledged.keys.push(String((await succeed('POST /tenant/api-keys', { name: `k${index}`, scopes: [] })).body['key']))
    })
  ]
  await until('some of each are acknowledged', async () => {
    await ask('GET /tenant/info')
    return acknowledged.version >= 5 && [acknowledged.secrets, acknowledged.roles, acknowledged.keys].every(({ length }) => length >= 5)
  })
  fate.killed = true
  t.equal(await victim.stop('SIGKILL'), null)
  await Promise.all(streams)
  t.comment(
    `acknowledged: version ${acknowledged.version}, ${acknowledged.secrets.length} secrets, ${acknowledged.roles.length} roles, ${acknowledged.keys.length} keys`
  )

  const { headers } = await ask('GET /tenant/config')
  const version = Number(String(headers['etag']).replaceAll('"', ''))
  t.ok(version === acknowledged.version || version === acknowledged.version + 1, `the document has version ${version}`)
  const secrets: unknown[] = []
  for (let offset = 0; offset === secrets.length; offset += 100) {
    secrets.push(...[(await ask(`GET /tenant/secrets?limit=100&offset=${offset}`)).body['secrets']].flat())
  }
  t.strictSame(
    acknowledged.secrets.filter((key) => !secrets.some((secret) => isRecord(secret) && secret['key'] === key)),
    [],
    'every secret exists'
  )
  const { text: roles } = await ask('GET /tenant/rbac')
  t.strictSame(acknowledged.roles.filter((name) => !roles.includes(`"${name}"`)), [], 'every role exists')
  for (const key of acknowledged.keys) {
    const { status } = await remoteCaller(t, survivor.address, { headers: { 'x-api-key': key } })('GET /tenant/info')
    if (status !== 200) t.fail(`an acknowledged key gets ${status}`)
  }
  t.match(await ask('POST /tenant/secrets', { body: { key: 'LAST', value: secret('last') } }), { status: 201 }, 'the surviving instance accepts writes')
}
