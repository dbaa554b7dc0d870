/** Two tenants on one server: neither can see, change, block or detect the other's rows. */
import { type Test, test } from 'tap'
import { type DatabaseSection, forEachEngine, postgresDatabase } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { type Ask, caller, refused } from './caller.js'
import { everyKind } from './document.js'

const titlesOf = async (ask: Ask, target = 'GET /notes') => (await ask(target)).body.data?.map(({ title }) => title)

test('no request of a tenant reads or changes data of another tenant', (t) => forEachEngine(t, isolated))

test('the same holds with row-level security, under a role that obeys it', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true, preparedStatements: false, pool: { max: 2 } }
  await isolated(t, { provider: 'postgres', postgres })
})

async function isolated (t: Test, engine: DatabaseSection): Promise<void> {
  const app = await testServer(t, everyKind, { engine, tenants: ['a', 'b', 'c', 'B'] })
  const a = caller(t, app, { tenant: 'a' })
  const b = caller(t, app, { tenant: 'b' })
  const author = String((await b('POST /people', { body: { name: 'Bea', email: 'bea@b.example' } })).body['id'])
  const note = String((await b('POST /notes', { body: { title: 'of b', body: 'private', code: 'B-1', author_id: author } })).body['id'])
  await b('PUT /docs/shared', { body: { name: 'of b', a: { b: 7 }, tags: ['x'] } })
  const unchanged = async (label: string) => {
    t.match(await b(`GET /notes/${note}`), {
      status: 200,
      body: { title: 'of b', body: 'private', tenant_id: 'b', author_id: author, deleted: false }
    }, `${label}: the note is unchanged`)
    t.match((await b('GET /people')).body.data, [{ name: 'Bea', total: [{ count: 1 }] }], `${label}: its author is unchanged`)
    t.same((await b('GET /docs/shared')).body, { id: 'shared', name: 'of b', a: { b: 7 }, tags: ['x'] }, `${label}: the document is unchanged`)
  }

  await t.test('no read reaches the other tenant', async (t) => {
    for (
      const target of [
        'GET /notes',
        'GET /people',
        'GET /docs',
        'GET /computed',
        'GET /short',
        'GET /strict',
        'GET /notes?q=of',
        `GET /notes?ids=${note}`,
        'GET /notes?title=of%20b',
        'GET /notes?tenant_id=b',
        'GET /notes?done=false',
        'GET /notes?word=x',
        'GET /docs?gt=1',
        'GET /docs?tags=x',
        'GET /docs?name=of%20b',
        'GET /cached/notes',
        'GET /cached/docs',
        'GET /notes?X-Tenant-ID=b'
      ]
    ) {
      const { status, body } = await caller(t, app, { tenant: 'a' })(target)
      t.match([status, body.data, body['pagination']], [200, { length: 0 }, { total: 0 }], target)
    }
    for (const target of [`GET /notes/${note}`, `GET /hidden/${note}`, 'GET /docs/shared', `GET /cached/hidden/${note}`]) {
      refused(t, await a(target), 404, 'NOT_FOUND', target)
    }
  })

  await t.test('no write reaches the other tenant', async (t) => {
    for (const target of [`PATCH /notes/${note}`, 'PATCH /docs/shared']) {
      refused(t, await a(target, { body: { title: 'taken' } }), 404, 'NOT_FOUND', target)
    }
    for (
      const target of [`DELETE /notes/${note}`, `DELETE /notes/${note}?hard=true`, `DELETE /people/${author}`, 'DELETE /docs/shared']
    ) { refused(t, await a(target), 404, 'NOT_FOUND', target) }
    t.same((await a('PATCH /by-title/of%20b', { body: { body: 'taken' } })).body, { data: [] })
    // Each tenant has its own ids: an id of the other tenant is not revealed, and stays available.
    const own = { title: 'own', id: note }
    for (
      const [target, body] of [[`PUT /notes/${note}`, { title: 'own' }], ['POST /notes/upsert', own], ['POST /notes/upsert', [own]], [
        'POST /notes',
        own
      ], ['POST /notes', [own]]] as const
    ) {
      const { status, text } = await a(target, { body })
      t.ok([200, 201].includes(status) && text.includes(note) && text.includes('"tenant_id":"a"'), `${target} with the id: ${status}`)
      refused(t, await a('POST /notes', { body: own }), 409, 'CONFLICT', 'an id that the tenant itself uses')
      t.match(await a(`DELETE /notes/${note}?hard=true`), { status: 200 })
    }
    t.strictSame(await titlesOf(a), [], "all of them were the tenant's own rows")
    t.match(
      await a('PUT /docs/shared', { body: { name: 'of a' } }),
      { status: 200, body: { name: 'of a' } },
      'document ids belong to each tenant separately'
    )
    t.match(await a('DELETE /docs/shared'), { status: 200 })
    await unchanged('writes')
  })

  await t.test('a body cannot set another tenant', async (t) => {
    const mine = String((await a('POST /notes', { body: { title: 'mine', tenant_id: 'a' } })).body['id'])
    for (const tenant of ['b', 'B', 'A', '', ' a', 'a ', 1, true, null, ['a'], ['b'], { id: 'b' }, '*']) {
      const isOwn = Array.isArray(tenant) && String(tenant) === 'a'
      for (
        const [target, body] of [
          ['POST /notes', { title: 'x', tenant_id: tenant }],
          ['POST /notes', [{ title: 'x' }, { title: 'y', tenant_id: tenant }]],
          ['POST /notes/upsert', { title: 'x', tenant_id: tenant }],
          ['POST /notes/upsert', [{ title: 'x', tenant_id: tenant }]],
          [`PUT /notes/${mine}`, { title: 'x', tenant_id: tenant }],
          [`PATCH /notes/${mine}`, { tenant_id: tenant }],
          ['POST /open', { title: 'x', tenant_id: tenant }],
          ['POST /mapped', { name: 'x', tenant }]
        ] as const
      ) {
        const response = await a(target, { body })
        t.ok([400, 403].includes(response.status) || isOwn, `${target} ${JSON.stringify(tenant)}: ${response.status}`)
        if (response.status < 400) t.match(response.text, /"tenant_id":"a"/)
      }
    }
    refused(
      t,
      await a('POST /checked', { body: { title: 'x', tenant_id: 'a' } }),
      400,
      'VALIDATION_FAILED',
      'a route that does not declare it'
    )
    const of = (await a('POST /docs', { body: { name: 'mine', tenant_id: 'b', collection: 'other' } })).body
    t.match(await a(`GET /docs/${String(of['id'])}`), { status: 200 }, 'in a document, tenant_id is an ordinary field')
    t.match((await b('GET /docs')).body.data, [{ name: 'of b' }])
    await unchanged('bodies')
  })

  await t.test("no row can reference another tenant's row", async (t) => {
    const hang = { title: 'hanging', author_id: author }
    const mine = String((await a('POST /notes', { body: { title: 'mine' } })).body['id'])
    for (
      const [target, body] of [['POST /notes', hang], ['POST /notes', [{ title: 'x' }, hang]], ['POST /notes/upsert', hang], [
        `PUT /notes/${mine}`,
        hang
      ], [`PATCH /notes/${mine}`, { author_id: author }]] as const
    ) {
      refused(t, await a(target, { body }), 400, 'CONSTRAINT_VIOLATED', target)
    }
    t.equal((await titlesOf(a))?.includes('hanging'), false)
    t.equal((await a(`GET /notes/${mine}`)).body['author_id'], null)
    await unchanged('references')
  })

  await t.test('a unique value reveals nothing of the other tenant if the tenant is in the key', async (t) => {
    t.match(await a('POST /people', { body: { name: 'Abe', email: 'bea@b.example' } }), { status: 201 })
    refused(t, await a('POST /people', { body: { name: 'Abe', email: 'bea@b.example' } }), 409, 'CONFLICT')
    t.strictSame((await a('GET /people')).body.data?.map(({ name }) => name), ['Abe'])
  })

  await t.test("X-Tenant-ID is one valid id, and never differs from the token's tenant", async (t) => {
    const ask = caller(t, app)
    for (
      const tenant of [
        '',
        ' ',
        'a b',
        'a,b',
        'a, a',
        "a'",
        'a"',
        'ä',
        '*',
        '../b',
        'a/b',
        'a:b',
        'a.b',
        '{{auth.sub}}',
        'x'.repeat(65),
        '%61',
        'a;b',
        'a\tb'
      ]
    ) {
      refused(t, await ask('GET /notes', { headers: { 'x-tenant-id': tenant } }), 400, 'TENANT_INVALID', JSON.stringify(tenant))
    }
    refused(t, await ask('GET /notes', { tenant: 'x'.repeat(64) }), 404, 'TENANT_UNKNOWN', 'an id of 64 characters')
    t.match(await ask('GET /notes', { headers: { 'X-TENANT-ID': 'a' } }), { status: 200 }, 'header names are case-insensitive')
    t.strictSame(await titlesOf(caller(t, app, { tenant: 'B' })), [], 'ids are case-sensitive')
    refused(t, await ask('GET /notes'), 400, 'TENANT_REQUIRED', 'no tenant')
    refused(t, await ask('GET /docs/shared'), 404, 'NOT_FOUND', "documents without a tenant are the platform's")
    const token = signToken({ tenant_id: 'a' })
    for (const tenant of ['b', 'A', 'aa']) refused(t, await ask('GET /notes', { token, tenant }), 403, 'TENANT_MISMATCH', tenant)
    refused(t, await ask('GET /notes', { token, tenant: 'a, b' }), 400, 'TENANT_INVALID')
    t.match(await ask('GET /notes', { token, tenant: 'a' }), { status: 200 })
    refused(t, await ask('GET /notes', { token: signToken({}), tenant: 'b' }), 403, 'TENANT_MISMATCH', 'a user without a tenant')
    refused(t, await ask('GET /notes', { token: signToken({}) }), 400, 'TENANT_REQUIRED', 'a user without a tenant, without the header')
    refused(
      t,
      await ask('GET /notes', { token: signToken({ role: 'admin', tenant_id: 'a' }), tenant: 'b' }),
      403,
      'TENANT_MISMATCH',
      "another tenant's administrator"
    )
    t.match(
      (await ask('GET /notes', { token: signToken({ role: 'admin' }), tenant: 'b' })).body.data,
      [{ title: 'of b' }],
      'a platform administrator'
    )
    refused(t, await ask('GET /members', { tenant: 'b' }), 401, 'TOKEN_MISSING', 'a route that is not public')
    t.match((await ask('GET /members', { token: signToken({ tenant_id: 'b' }) })).body.data, [{ title: 'of b' }])
    refused(t, await ask('POST /members', { tenant: 'b', body: { title: 'x' } }), 401, 'TOKEN_MISSING')
  })

  await t.test('a cached response belongs to one tenant, one caller and one view', async (t) => {
    t.strictSame(await titlesOf(b, 'GET /cached/notes'), ['of b'])
    const again = await b('GET /cached/notes')
    t.match([again.headers['x-cache'], again.body.data], ['HIT', [{ title: 'of b' }]])
    const other = await a('GET /cached/notes?')
    t.notMatch(other.text, /of b/)
    const c = await caller(t, app, { tenant: 'c' })('GET /cached/notes')
    t.match([c.headers['x-cache'], c.body.data], ['MISS', { length: 0 }], 'the same URL for another tenant')
    const key = await b('GET /cached/key?k=of%20b')
    t.match(key.body.data, [{ title: 'of b' }])
    t.match((await caller(t, app, { tenant: 'c' })('GET /cached/key?k=of%20b')).body.data, { length: 0 }, 'a custom cache key')

    const ask = caller(t, app)
    const [one, two] = [signToken({ sub: 'one', tenant_id: 'b' }), signToken({ sub: 'two', tenant_id: 'b' })]
    const mine = async (token: string, lang: string) => {
      const { headers, body } = await ask('GET /cached/mine', { token, headers: { 'accept-language': lang } })
      return [headers['x-cache'], body['sub'], body['lang']]
    }
    t.strictSame(await mine(one, 'de'), ['MISS', 'one', 'de'])
    t.strictSame(await mine(two, 'de'), ['MISS', 'two', 'de'])
    t.strictSame(await mine(one, 'fr'), ['MISS', 'one', 'fr'])
    t.strictSame(await mine(one, 'de'), ['HIT', 'one', 'de'])
    refused(t, await ask('GET /cached/mine', { tenant: 'b' }), 401, 'TOKEN_MISSING', 'a cached response of a route that needs a token')

    const view = async (request: Parameters<Ask>[1]) => Object.hasOwn((await ask(`GET /cached/hidden/${note}`, request)).body, 'body')
    t.equal(await view({ token: signToken({ role: 'admin', tenant_id: 'b' }) }), true, 'an administrator sees every field')
    t.equal(await view({ token: one }), false, 'the next user does not get the cached field')
    t.equal(await view({ tenant: 'b' }), false, 'nor does an anonymous caller')
    t.equal(await view({ token: one, tenant: 'b' }), true, "the tenant's own dashboard does")
    t.equal(await view({ token: two }), false)
  })

  await t.test('excluded fields cannot be read or written without the right token', async (t) => {
    const ask = caller(t, app)
    const user = signToken({ tenant_id: 'b', role: 'editor' })
    for (
      const request of [{ tenant: 'b' }, { token: user }, { tenant: 'b', headers: { 'x-role': 'admin', role: 'admin' } }, {
        token: signToken({ tenant_id: 'b', role: 'Admin' })
      }, { token: signToken({ tenant_id: 'b', permissions: ['admin', '*'] }) }]
    ) {
      t.notMatch((await ask(`GET /hidden/${note}?role=admin&fullAccess=true`, request)).text, /private|"body"/, JSON.stringify(request))
    }
    t.match((await ask(`GET /hidden/${note}`, { token: user, tenant: 'b' })).body, { body: 'private' })
    const changed = await ask(`PATCH /hidden/${note}`, { token: user, body: { body: 'public', title: 'of b' } })
    t.match([changed.status, Object.hasOwn(changed.body, 'body')], [200, false])
    await unchanged('an excluded field in a body')
  })
}

test("an error reveals nothing of other tenants' rows that PostgreSQL evaluates first", async (t) => {
  const database = await postgresDatabase(t)
  const app = await testServer(t, everyKind, {
    engine: { provider: 'postgres', postgres: { connectionString: database.connectionString } },
    tenants: ['a', 'b']
  })
  await caller(t, app, { tenant: 'b' })('POST /notes', { body: { title: 'secret plan' } })
  // PostgreSQL now knows that the table is small, and scans all of it.
  await database.query('analyze')
  const a = caller(t, app, { tenant: 'a' })
  const [right, wrong] = [await a('GET /notes?like=secret%5C'), await a('GET /notes?like=hidden%5C')]
  t.same({ ...right.body, requestId: '' }, { ...wrong.body, requestId: '' })
  t.equal(right.status, wrong.status)
})
