/** If-Match on declared writes: compared with the version of the GET route on the same path. */
import { type Test, test } from 'tap'
import type { Route } from '../../lib/schema/route.js'
import { type DatabaseSection, forEachEngine, postgresSection } from '../helpers/postgres.js'
import { type TestDocument, testServer, testServers } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { type Ask, caller, refused, type Reply } from './caller.js'

const tables = {
  notes: {
    tenantScoped: true,
    columns: { id: { type: 'text', primaryKey: true }, title: { type: 'text' }, secret: { type: 'text' } }
  },
  comments: {
    tenantScoped: true,
    columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, note: { type: 'text' }, text: { type: 'text' } }
  },
  lines: {
    tenantScoped: true,
    columns: { id: { type: 'text', primaryKey: true }, note: { type: 'text', references: 'notes.id' }, text: { type: 'text' } }
  }
} as const satisfies TestDocument['tables']

const id = '{{params.id}}'
const readNote = { table: 'notes', operation: 'select', id } as const

const routesAt = (base: string): Route[] => [
  { method: 'post', path: `${base}/notes`, queries: [{ table: 'notes', operation: 'insert' }] },
  { method: 'get', path: `${base}/notes`, queries: [{ table: 'notes', operation: 'select' }] },
  { method: 'get', path: `${base}/notes/:id`, queries: [readNote], excludeFields: ['secret'] },
  { method: 'put', path: `${base}/notes/:id`, queries: [{ table: 'notes', operation: 'update', id }] },
  {
    method: 'patch',
    path: `${base}/notes/:id`,
    queries: [{ table: 'notes', operation: 'update', id }],
    response: { title: '{{results.notes.title}}' }
  },
  { method: 'delete', path: `${base}/notes/:id`, queries: [{ table: 'notes', operation: 'delete', id }] },
  // The version is computed, and depends on the query string.
  {
    method: 'get',
    path: `${base}/shown/:id`,
    queries: [readNote],
    response: { title: '{{results.notes.title}}', language: "{{query.language || 'en'}}" },
    request: { query: { language: { type: 'string', maxLength: 2 } } }
  },
  { method: 'put', path: `${base}/shown/:id`, queries: [{ table: 'notes', operation: 'update', id, data: { title: '{{body.title}}' } }] },
  // The write changes another row than the GET route shows.
  {
    method: 'get',
    path: `${base}/comments/:id`,
    queries: [{ table: 'comments', operation: 'select', filters: [{ column: 'note', value: id }] }]
  },
  {
    method: 'put',
    path: `${base}/comments/:id`,
    queries: [{ table: 'comments', operation: 'insert', data: { note: id, text: '{{body.text}}' } }]
  },
  // Several writes in one transaction.
  {
    method: 'get',
    path: `${base}/both/:id`,
    queries: [readNote, { table: 'comments', operation: 'select', filters: [{ column: 'note', value: id }] }]
  },
  {
    method: 'put',
    path: `${base}/both/:id`,
    queries: [{ table: 'comments', operation: 'insert', data: { note: id, text: '{{body.text}}' } }, {
      table: 'notes',
      operation: 'update',
      id,
      data: { title: '{{body.title}}' }
    }]
  },
  // The GET route shows rows of two tables, and each write changes one of them.
  { method: 'post', path: `${base}/lines`, queries: [{ table: 'lines', operation: 'insert' }] },
  { method: 'get', path: `${base}/parts/:id`, queries: [{ ...readNote, select: '*, lines(*)' }] },
  { method: 'put', path: `${base}/parts/:id`, queries: [{ table: 'notes', operation: 'update', id }] },
  {
    method: 'patch',
    path: `${base}/parts/:id`,
    queries: [{
      table: 'lines',
      operation: 'update',
      filters: [{ column: 'note', value: id }, { column: 'id', value: '{{body.id}}' }],
      data: { text: '{{body.text}}' }
    }]
  },
  { method: 'get', path: `${base}/made/:id`, queries: [readNote] },
  { method: 'put', path: `${base}/made/:id`, queries: [{ table: 'notes', operation: 'upsert', data: { id, title: '{{body.title}}' } }] },
  { method: 'get', path: `${base}/guarded/:id`, queries: [readNote], requiredPermissions: ['notes:read'] },
  {
    method: 'put',
    path: `${base}/guarded/:id`,
    queries: [{ table: 'notes', operation: 'update', id }],
    requiredPermissions: ['notes:write']
  },
  // Routes without a version.
  { method: 'put', path: `${base}/blind/:id`, queries: [{ table: 'notes', operation: 'update', id }] },
  { method: 'put', path: `${base}/named/:id`, queries: [{ table: 'notes', operation: 'update', id }] },
  { method: 'get', path: `${base}/named/:key`, queries: [{ table: 'notes', operation: 'select', id: '{{params.key}}' }] },
  { method: 'get', path: `${base}/private/:id`, queries: [readNote], requireAuth: true },
  { method: 'put', path: `${base}/private/:id`, queries: [{ table: 'notes', operation: 'update', id }] },
  // The route reads the header itself.
  {
    method: 'put',
    path: `${base}/own/:id`,
    queries: [{
      table: 'notes',
      operation: 'update',
      filters: [{ column: 'id', value: id }, { column: 'title', value: '{{headers.if-match}}' }],
      data: { title: '{{body.title}}' }
    }]
  }
]

const tagOf = ({ headers }: Reply) => String(headers['etag'])
const putting = (title: string, tag: string) => ({ body: { title }, headers: { 'if-match': tag } })

async function preconditions (t: Test, ask: Ask, base: string): Promise<void> {
  const note = async (id: string) => {
    t.equal((await ask(`POST ${base}/notes`, { body: { id: base + id, title: 'one' } })).status, 201)
  }
  const at = (id: string, path = 'notes') => `${base}/${path}/${encodeURIComponent(base + id)}`
  const titleOf = async (id: string) => (await ask(`GET ${at(id)}`)).body['title']
  const tagAt = async (target: string) => tagOf(await ask(`GET ${target}`))

  await t.test('a write succeeds with the current tag and fails with another one', async (t) => {
    await note('a')
    const first = await tagAt(at('a'))
    t.equal((await ask(`PUT ${at('a')}`, putting('two', `"x", W/${first}`))).status, 200)
    const second = await tagAt(at('a'))
    t.not(second, first)
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const stale = await ask(`${method} ${at('a')}`, method === 'DELETE' ? { headers: { 'if-match': first } } : putting('three', first))
      refused(t, stale, 412, 'PRECONDITION_FAILED', method)
      t.equal(tagOf(stale), second, 'the error contains the current tag')
    }
    t.equal(await titleOf('a'), 'two', 'nothing was written')
    t.match(await ask(`PATCH ${at('a')}`, putting('three', second)), { status: 200, body: { title: 'three' } })
    t.equal((await ask(`PUT ${at('a')}`, { body: { title: 'four' } })).status, 200, 'without the header')
    for (const header of ['x', '"a" "b"', '']) refused(t, await ask(`PUT ${at('a')}`, putting('five', header)), 400, 'BAD_REQUEST', header)
    t.equal((await ask(`DELETE ${at('a')}`, { headers: { 'if-match': await tagAt(at('a')) } })).status, 200)
    refused(t, await ask(`PUT ${at('a')}`, putting('six', second)), 412, 'PRECONDITION_FAILED', 'the row is gone')
    refused(t, await ask(`PUT ${at('a')}`, putting('six', '*')), 412, 'PRECONDITION_FAILED', 'with If-Match: * too')
    refused(t, await ask(`PUT ${at('a')}`, { body: { title: 'six' } }), 404, 'NOT_FOUND', 'without the header')
  })

  await t.test('a change of a hidden column does not change the version', async (t) => {
    await note('b')
    const tag = await tagAt(at('b'))
    await ask(`PUT ${at('b')}`, { body: { secret: 'x' } })
    t.equal((await ask(`PUT ${at('b')}`, putting('two', tag))).status, 200)
  })

  await t.test('the version is that of the whole URL', async (t) => {
    await note('c')
    const german = await tagAt(`${at('c', 'shown')}?language=de`)
    t.not(german, await tagAt(at('c', 'shown')))
    refused(t, await ask(`PUT ${at('c', 'shown')}`, putting('two', german)), 412, 'PRECONDITION_FAILED')
    refused(
      t,
      await ask(`PUT ${at('c', 'shown')}?language=long`, putting('two', german)),
      400,
      'VALIDATION_FAILED',
      'as in the read'
    )
    t.equal((await ask(`PUT ${at('c', 'shown')}?language=de`, putting('two', german))).status, 200)
  })

  await t.test('a conditional write does not create a missing row', async (t) => {
    refused(t, await ask(`PUT ${at('d', 'made')}`, putting('one', '*')), 412, 'PRECONDITION_FAILED')
    t.equal((await ask(`GET ${at('d')}`)).status, 404)
    t.equal((await ask(`PUT ${at('d', 'made')}`, { body: { title: 'one' } })).status, 200)
    t.equal((await ask(`PUT ${at('d', 'made')}`, putting('two', '*'))).status, 200)
  })

  await t.test('several writes are checked as one', async (t) => {
    await note('e')
    const tag = await tagAt(at('e', 'both'))
    const write = { ...putting('two', tag), body: { title: 'two', text: 'x' } }
    t.equal((await ask(`PUT ${at('e', 'both')}`, write)).status, 200)
    refused(t, await ask(`PUT ${at('e', 'both')}`, write), 412, 'PRECONDITION_FAILED')
    t.match(await ask(`GET ${at('e', 'comments')}`), { body: { pagination: { total: 1 } } })
  })

  await t.test('routes without a version reject the header', async (t) => {
    await note('f')
    for (const path of ['blind', 'named']) {
      for (const header of ['*', '"x"']) {
        refused(t, await ask(`PUT ${at('f', path)}`, putting('two', header)), 400, 'BAD_REQUEST', `${path} ${header}`)
      }
    }
    refused(t, await ask(`POST ${base}/notes`, { body: { id: 'x' }, headers: { 'if-match': '*' } }), 400, 'BAD_REQUEST')
    refused(t, await ask(`PUT ${at('f', 'private')}`, putting('two', '*')), 400, 'BAD_REQUEST', 'an anonymous caller cannot write what it cannot read')
    t.equal(await titleOf('f'), 'one')
    t.equal((await ask(`PUT ${at('f', 'own')}`, putting('two', 'one'))).status, 200, 'a route that reads the header itself')
  })
}

async function permissions (t: Test, asking: (permissions: string[]) => Ask, base: string): Promise<void> {
  const both = asking(['notes:read', 'notes:write'])
  const path = `${base}/guarded/g${base.slice(1)}`
  await both(`POST ${base}/notes`, { body: { id: `g${base.slice(1)}` } })
  const tag = tagOf(await both(`GET ${path}`))
  refused(
    t,
    await asking(['notes:write'])(`PUT ${path}`, putting('two', '"x"')),
    403,
    'FORBIDDEN',
    'tags reveal nothing to callers who cannot read'
  )
  t.equal((await asking(['notes:write'])(`PUT ${path}`, { body: { title: 'two' } })).status, 200)
  refused(t, await both(`PUT ${path}`, putting('three', tag)), 412, 'PRECONDITION_FAILED')
}

const settled = (responses: readonly Reply[]) => responses.map(({ status }) => status).sort()

async function partRaces (t: Test, servers: readonly Ask[], base: string, writers: number): Promise<void> {
  const [ask] = servers
  if (ask === undefined) throw new Error('there is no server')
  const note = `parts${base.slice(1)}`
  const path = `${base}/parts/${note}`
  await ask(`POST ${base}/notes`, { body: { id: note, title: 'one' } })
  for (let n = 0; n < writers; n++) await ask(`POST ${base}/lines`, { body: { id: `${note}${n}`, note, text: 'one' } })
  for (let round = 0; round < 5; round++) {
    const tag = tagOf(await ask(`GET ${path}`))
    const responses = await Promise.all(Array.from({ length: writers }, (_, n) => {
      const own = servers[n % servers.length] ?? ask
      const text = `${round} by ${n}`
      return n === 0
        ? own(`PUT ${path}`, putting(text, tag))
        : own(`PATCH ${path}`, { ...putting('', tag), body: { id: `${note}${n}`, text } })
    }))
    t.same(settled(responses), [200, ...Array.from({ length: writers - 1 }, () => 412)])
  }
}

async function races (t: Test, servers: readonly Ask[], base: string, writers: number): Promise<void> {
  const [ask] = servers
  if (ask === undefined) throw new Error('there is no server')
  const all = (target: string, requestOf: (n: number) => object) =>
    Promise.all(Array.from({ length: writers }, (_, n) => (servers[n % servers.length] ?? ask)(target, requestOf(n))))
  const path = `${base}/notes/race${base.slice(1)}`
  const comments = path.replace('/notes/', '/comments/')
  const expected = [200, ...Array.from({ length: writers - 1 }, () => 412)]

  for (let round = 0; round < 5; round++) {
    await ask(`POST ${base}/notes`, { body: { id: `race${base.slice(1)}`, title: 'one' } })
    const tag = tagOf(await ask(`GET ${path}`))
    t.same(settled(await all(`PUT ${path}`, (n) => putting(`by ${n}`, tag))), expected, 'of concurrent writers with one version, one succeeds')
    const list = tagOf(await ask(`GET ${comments}`))
    t.same(
      settled(await all(`PUT ${comments}`, (n) => ({ ...putting('', list), body: { text: `by ${n}` } }))),
      [...expected.slice(1), 201].sort(),
      'also if they add rows'
    )
    t.match(await ask(`GET ${comments}`), { body: { pagination: { total: round + 1 } } })
    t.same(
      settled(await all(`PUT ${path}`, (n) => putting(`any ${n}`, '*'))),
      Array.from({ length: writers }, () => 200),
      'with If-Match: * all succeed'
    )
    const last = tagOf(await ask(`GET ${path}`))
    t.same(settled(await all(`DELETE ${path}`, () => ({ headers: { 'if-match': last } }))), expected, 'and one DELETE')
  }
}

test('If-Match on declared writes', (t) =>
  forEachEngine(t, async (t, engine: DatabaseSection) => {
    const app = await testServer(t, { tables, routes: routesAt('/p') }, { engine, tenants: ['acme', 'other'] })
    const user = (tenant: string, permissions?: string[]) =>
      caller(t, app, { token: signToken({ sub: 'ada', tenant_id: tenant, ...permissions !== undefined && { permissions } }) })
    const admin = caller(t, app, { token: signToken({ sub: 'root', role: 'admin', tenant_id: 'acme' }) })
    t.equal((await admin('POST /tenant/config', { body: { routes: routesAt('/t') } })).status, 200)

    for (const [name, base] of [['the platform', '/p'], ['a tenant', '/t']] as const) {
      await t.test(`routes of ${name}`, async (t) => {
        await preconditions(t, user('acme'), base)
        await t.test("the read's permissions apply", (t) => permissions(t, (permissions) => user('acme', permissions), base))
        await t.test('of concurrent writers with one version, one succeeds', (t) => races(t, [user('acme')], base, 4))
        await t.test('also if they change different rows of it', (t) => partRaces(t, [user('acme')], base, 4))
      })
    }

    await t.test('tenants have separate versions', async (t) => {
      await user('acme')('POST /p/notes', { body: { id: 'own', title: 'x' } })
      const tag = tagOf(await user('acme')('GET /p/notes/own'))
      refused(t, await user('other')('PUT /p/notes/own', putting('y', tag)), 412, 'PRECONDITION_FAILED')
      t.match(await user('acme')('GET /p/notes/own'), { body: { title: 'x' }, headers: { etag: tag } })
    })

    await t.test('/doc lists If-Match and 412 for the same operations', async (t) => {
      const { body } = await user('acme')('GET /doc')
      const { paths, components } = body as {
        paths: Record<string, Record<string, { parameters?: object[], responses: object }>>,
        components: { parameters: object }
      }
      t.match(components.parameters, { IfMatch: { in: 'header', name: 'If-Match' } })
      const reference = { $ref: '#/components/parameters/IfMatch' }
      for (const base of ['/p', '/t']) {
        const shown = Object.entries(paths).filter(([path]) => path.startsWith(`${base}/`)).flatMap(([path, item]) =>
          Object.entries(item).flatMap(([method, { parameters = [], responses }]) => {
            const has = parameters.some((one) => JSON.stringify(one) === JSON.stringify(reference))
            t.equal('412' in responses, has, `${method} ${path}`)
            return has ? [`${method} ${path.slice(base.length)}`] : []
          })
        )
        t.same(shown.sort(), [
          'delete /notes/{id}',
          'patch /notes/{id}',
          'patch /parts/{id}',
          'put /both/{id}',
          'put /comments/{id}',
          'put /guarded/{id}',
          'put /made/{id}',
          'put /notes/{id}',
          'put /parts/{id}',
          'put /shown/{id}'
        ])
      }
    })
  }))

test('writers with one version at two servers', async (t) => {
  const servers = await testServers(t, { tables, routes: routesAt('/p') }, { engine: await postgresSection(t), tenants: ['acme'] })
  await races(t, servers.map((app) => caller(t, app, { token: signToken({ sub: 'ada', tenant_id: 'acme' }) })), '/p', 12)
})
