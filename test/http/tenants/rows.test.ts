/** Rows: whatever a tenant's routes declare and its callers send, only the tenant's rows are reached. */
import { type Test, test } from 'tap'
import { type DatabaseSection, forEachEngine, postgresDatabase } from '../../helpers/postgres.js'
import { refused } from '../caller.js'
import { createWorld, marker, type Routes, save, tokenOf, userOf } from './world.js'

const byId = [{ column: 'id', value: '{{params.id}}' }]

/** Routes that both tenants save; the attacker's additional ones are below. */
const routes: Routes = [
  {
    method: 'get',
    path: '/mine/notes',
    queries: [{
      table: 'notes',
      operation: 'select',
      select: '*, author:people(id, name, notes(title))',
      filters: [{ column: 'tenant_id', value: '{{query.tenant_id}}', optional: true }, {
        column: 'title',
        operator: 'ilike',
        value: '%{{query.q}}%',
        optional: true
      }, { column: 'id', operator: 'in', value: '{{query.ids}}', optional: true }]
    }]
  },
  { method: 'get', path: '/mine/notes/:id', queries: [{ table: 'notes', operation: 'select', single: true, filters: byId }] },
  { method: 'post', path: '/mine/notes', queries: [{ table: 'notes', operation: 'insert' }] },
  { method: 'put', path: '/mine/notes/:id', queries: [{ table: 'notes', operation: 'upsert', id: '{{params.id}}' }] },
  { method: 'post', path: '/mine/notes/upsert', queries: [{ table: 'notes', operation: 'upsert' }] },
  { method: 'patch', path: '/mine/notes/:id', queries: [{ table: 'notes', operation: 'update', filters: byId }] },
  { method: 'delete', path: '/mine/notes/:id', queries: [{ table: 'notes', operation: 'delete', filters: byId }] },
  {
    method: 'get',
    path: '/mine/people',
    queries: [{ table: 'people', operation: 'select', select: 'id, name, notes(id, title), total:notes(count)' }]
  },
  { method: 'post', path: '/mine/people', queries: [{ table: 'people', operation: 'insert' }] },
  { method: 'delete', path: '/mine/people/:id', queries: [{ table: 'people', operation: 'delete', filters: byId }] },
  { method: 'get', path: '/mine/docs', firebaseQueries: [{ collection: 'docs', operation: 'query' }] },
  { method: 'get', path: '/mine/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'get', docId: '{{params.id}}' }] },
  { method: 'put', path: '/mine/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'set', docId: '{{params.id}}' }] }
]

/** Routes that name the victim. */
const hostile: Routes = [
  {
    method: 'get',
    path: '/hostile/equal',
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'tenant_id', value: 'victim' }] }]
  },
  {
    method: 'get',
    path: '/hostile/or',
    queries: [{
      table: 'notes',
      operation: 'select',
      filters: [{
        or: [{ column: 'tenant_id', value: 'victim' }, { column: 'tenant_id', operator: 'neq', value: 'nobody' }, {
          column: 'title',
          operator: 'like',
          value: '%'
        }]
      }]
    }]
  },
  {
    method: 'get',
    path: '/hostile/not',
    queries: [{ table: 'notes', operation: 'select', filters: [{ not: { column: 'tenant_id', value: 'attacker' } }] }]
  },
  {
    method: 'get',
    path: '/hostile/in',
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'tenant_id', operator: 'in', value: ['victim', 'attacker'] }] }]
  },
  {
    method: 'get',
    path: '/hostile/embed',
    queries: [{ table: 'people', operation: 'select', select: '*, notes(*, author:people(*, notes(*)))' }]
  },
  {
    method: 'get',
    path: '/hostile/header',
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'tenant_id', value: '{{headers.x-tenant-id}}' }] }]
  },
  {
    method: 'get',
    path: '/hostile/two',
    queries: [{ table: 'people', operation: 'select', alias: 'people', filters: [{ column: 'tenant_id', value: 'victim' }] }, {
      table: 'notes',
      operation: 'select',
      alias: 'notes',
      filters: [{ column: 'author_id', value: '{{query.author}}' }]
    }]
  },
  {
    method: 'patch',
    path: '/hostile/all',
    queries: [{
      table: 'notes',
      operation: 'update',
      data: { body: 'taken' },
      filters: [{ column: 'title', operator: 'like', value: '%' }]
    }]
  },
  {
    method: 'delete',
    path: '/hostile/all',
    queries: [{ table: 'notes', operation: 'delete', filters: [{ column: 'tenant_id', value: 'victim' }] }]
  },
  {
    method: 'post',
    path: '/hostile/insert',
    queries: [{ table: 'notes', operation: 'insert', data: { title: 'planted', tenant_id: '{{body.tenant}}' } }]
  },
  {
    method: 'get',
    path: '/hostile/transform',
    transform: { fields: { other: 'tenant.id + item.tenant_id' } },
    queries: [{ table: 'notes', operation: 'select' }]
  }
]

test('rows of another tenant', (t) => forEachEngine(t, attack))

test('rows of another tenant, with row-level security and a pool of one', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true, pool: { max: 1 } }
  await attack(t, { provider: 'postgres', postgres })
})

async function attack (t: Test, engine: DatabaseSection): Promise<void> {
  const { app, attacker, victim } = await createWorld(t, { engine })
  await save(t, victim, routes)
  await save(t, attacker, [...routes, ...hostile])
  const author = String((await victim('POST /mine/people', { body: { name: marker } })).body['id'])
  const note = String(
    (await victim('POST /mine/notes', { body: { title: marker, body: marker, code: 'C-1', author_id: author } })).body['id']
  )
  await victim('PUT /mine/docs/shared', { body: { name: marker } })
  const own = String((await attacker('POST /mine/notes', { body: { title: 'own', code: 'C-1' } })).body['id'])
  await attacker('POST /mine/people', { body: { name: 'own' } })
  const victims =
    async () => [(await victim('GET /mine/notes')).text, (await victim('GET /mine/people')).text, (await victim('GET /mine/docs')).text]
  const before = await victims()
  t.ok(before.every((text) => text.includes(marker)), 'the victim has rows')
  const users = [attacker, userOf(t, app, 'attacker'), userOf(t, app, 'attacker', { permissions: ['*'] })]

  await t.test("no read reaches another tenant's rows", async (t) => {
    const targets = [
      'notes',
      'people',
      'docs',
      `notes/${note}`,
      'docs/shared',
      'notes?tenant_id=victim',
      'notes?tenant_id=victim&tenant_id=attacker',
      'notes?q=VICTIM',
      `notes?ids=${note}`,
      `notes?ids=${note},${own}`,
      'notes?limit=100&offset=0',
      'notes?offset=1',
      'notes?X-Tenant-ID=victim',
      'notes?tenant=victim'
    ].map((path) => `GET /mine/${path}`)
      .concat(
        ['equal', 'or', 'not', 'in', 'embed', 'header', 'transform', `two?author=${author}`].map((path) => `GET /hostile/${path}`),
        'GET /platform/notes',
        'GET /platform/notes?tenant_id=victim'
      )
    for (const ask of users) {
      for (const target of targets) {
        const { status, text } = await ask(target)
        t.ok([200, 400, 404].includes(status) && !text.includes(marker), `${target}: ${status}`)
      }
    }
    t.match((await attacker('GET /mine/notes?limit=1&offset=0')).body['pagination'], { total: 1 }, 'a count covers only the own rows')
    t.match((await attacker('GET /hostile/in')).body.data, [{ title: 'own' }], 'a filter on the tenant finds only the own rows')
  })

  await t.test("no write reaches another tenant's rows", async (t) => {
    const body = { title: 'taken', body: 'taken' }
    for (const ask of users) {
      for (
        const [target, expected] of [[`PATCH /mine/notes/${note}`, 404], [`DELETE /mine/notes/${note}`, 404], [
          `DELETE /mine/people/${author}`,
          404
        ], ['DELETE /hostile/all', 404]] as const
      ) {
        t.equal((await ask(target, target.startsWith('DELETE') ? {} : { body })).status, expected, target)
      }
      // Each tenant has its own ids: an id of another tenant is not revealed.
      for (const target of [`PUT /mine/notes/${note}`, 'POST /mine/notes/upsert', 'POST /mine/notes']) {
        t.match(await ask(target, { body: { ...!target.startsWith('PUT') && { id: note }, ...body } }), {
          status: target === 'POST /mine/notes' ? 201 : 200,
          body: { id: note, tenant_id: 'attacker' }
        }, target)
        t.match(await ask(`DELETE /mine/notes/${note}`), { status: 200 })
      }
      refused(
        t,
        await ask('POST /mine/notes', { body: { title: 'hanging', author_id: author } }),
        400,
        'CONSTRAINT_VIOLATED',
        'a reference to the row'
      )
      for (const tenant of ['victim', 'VICTIM', '', null, ['victim']]) {
        for (
          const [target, written] of [
            ['POST /mine/notes', { title: 'x', tenant_id: tenant }],
            [`PATCH /mine/notes/${own}`, { tenant_id: tenant }],
            [`PUT /mine/notes/${own}`, { title: 'x', tenant_id: tenant }],
            ['POST /hostile/insert', { tenant }]
          ] as const
        ) {
          const { status, text } = await ask(target, { body: written })
          t.ok([400, 403].includes(status), `${target} with the tenant ${JSON.stringify(tenant)}: ${status} ${text.slice(0, 200)}`)
        }
      }
    }
    t.match(await attacker('PATCH /hostile/all', { body: {} }), { status: 200 })
    t.match(await attacker('PUT /mine/docs/shared', { body: { name: 'own' } }), { status: 200 }, 'document ids belong to each tenant separately')
    t.strictSame(await victims(), before, "the victim's rows are unchanged")
  })

  await t.test('no header selects another tenant', async (t) => {
    for (const claims of [{ role: 'admin' }, {}, { permissions: ['*'] }]) {
      const token = tokenOf('attacker', claims)
      for (
        const target of [
          'GET /mine/notes',
          'GET /platform/notes',
          'GET /tenant/info',
          'GET /tenant/config',
          'POST /tenant/config',
          'GET /tenant/secrets',
          'POST /tenant/secrets',
          'GET /tenant/api-keys',
          'GET /tenant/rbac',
          'GET /doc'
        ]
      ) {
        for (const tenant of ['victim', 'Attacker', 'attacker ', 'attacker,victim', 'victim, attacker']) {
          const { status, text } = await attacker(target, { token, tenant, ...(target.startsWith('POST') && { body: { routes: [] } }) })
          // Node trims a header's value.
          const isOwn = tenant.trim() === 'attacker'
          t.ok(
            isOwn ? status !== 500 : [400, 403].includes(status) || (target === 'GET /doc' && status === 200),
            `${target} as ${JSON.stringify(tenant)}: ${status}`
          )
          t.notOk(text.includes(marker))
        }
      }
      if (claims.role === 'admin') await save(t, attacker, [...routes, ...hostile])
    }
    t.strictSame(await victims(), before)
  })

  await t.test('concurrent requests of both tenants do not mix', async (t) => {
    const responses = await Promise.all(Array.from({ length: 60 }, async (_, index) => {
      const isVictim = index % 2 === 0
      const { text } = await (isVictim ? victim : attacker)(['GET /mine/notes', 'GET /mine/people', 'GET /mine/docs'][index % 3]!)
      return text.includes(marker) === isVictim
    }))
    t.notOk(responses.includes(false))
  })
}
