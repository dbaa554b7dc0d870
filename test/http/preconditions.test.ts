/** ETag and If-Match of built-in endpoints, and Location of created records. */
import { test } from 'tap'
import { postgresSection } from '../helpers/postgres.js'
import { testServers } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { type Ask, caller, refused } from './caller.js'

interface Resource {
  readonly read: string
  readonly write: string
  readonly bodies: readonly [object, object]
}

const rule = (limit: number) => [{ tiers: { pro: 5, free: 1 }, limit, period: 'day', metric: 'count', resource: 'workflow' }]
const resources: Readonly<Record<string, Resource>> = {
  roles: {
    read: 'GET /tenant/rbac',
    write: 'PUT /tenant/rbac',
    bodies: [{ enabled: true, roles: [{ name: 'b', permissions: ['x:y'] }, { name: 'a', permissions: [], parentRole: 'b' }] }, {
      enabled: false,
      roles: []
    }]
  },
  limits: { read: 'GET /tenant/limits/resources', write: 'PUT /tenant/limits/resources', bodies: [rule(5), rule(6)] },
  secrets: { read: 'GET /tenant/secrets', write: 'POST /tenant/secrets', bodies: [{ key: 'a', value: 'one' }, { key: 'a', value: 'two' }] },
  configuration: { read: 'GET /tenant/config', write: 'POST /tenant/config', bodies: [{ settings: { a: 1 } }, { settings: { a: 2 } }] }
}
const tokenOf = (tenant: string) => signToken({ sub: 'ada', role: 'admin', tenant_id: tenant })

test('preconditions', async (t) => {
  const servers = await testServers(t, { routes: [{ path: '/hello', method: 'get', response: { hello: 'you' } }] }, { engine: await postgresSection(t), tenants: ['acme', 'other'] })
  const [ask, elsewhere] = [caller(t, servers[0], { token: tokenOf('acme') }), caller(t, servers[1], { token: tokenOf('acme') })]
  const other = caller(t, servers[0], { token: tokenOf('other') })
  const tagAt = async (at: Ask, target: string) => String((await at(target)).headers['etag'])

  for (const [name, { read, write, bodies: [first, second] }] of Object.entries(resources)) {
    await t.test(name, async (t) => {
      const empty = await tagAt(ask, read)
      t.match(empty, /^"[^"]+"$/)
      t.ok((await ask(write, { body: first, headers: { 'if-match': empty } })).status < 300, 'the tag before the first write')
      const tag = await tagAt(ask, read)
      t.not(tag, empty)
      for (const header of [empty, `W/${empty}`, '"x", "y"']) {
        const stale = await ask(write, { body: second, headers: { 'if-match': header } })
        refused(t, stale, 412, 'PRECONDITION_FAILED', header)
        t.equal(stale.headers['etag'], tag, 'the error contains the current tag')
      }
      for (const header of ['x', tag.slice(1, -1), `${tag} ${tag}`, '']) {
        refused(t, await ask(write, { body: second, headers: { 'if-match': header } }), 400, 'BAD_REQUEST', header)
      }
      t.equal(await tagAt(ask, read), tag, 'nothing was written')
      t.ok(
        (await ask(write, { body: second, headers: { 'if-match': `"x", W/${tag}` } })).status < 300,
        'a list, and a tag that a proxy weakened'
      )
      t.ok((await ask(write, { body: first, headers: { 'if-match': '*' } })).status < 300)
      t.ok((await ask(write, { body: second })).status < 300, 'without a precondition')

      const before = await tagAt(ask, read)
      const writers = await Promise.all(
        Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? ask : elsewhere)(write, { body: first, headers: { 'if-match': before } }))
      )
      t.equal(writers.filter(({ status }) => status < 300).length, 1, 'one of several concurrent writers succeeds')
      t.equal(writers.filter(({ status }) => status === 412).length, 7)
      t.not(await tagAt(other, read), await tagAt(ask, read), 'another tenant has its own tag')
    })
  }

  await t.test('a write returns the tag of the next read', async (t) => {
    for (
      const { read, write, bodies: [, second] } of [resources['roles'], resources['limits'], resources['configuration']].filter((
        resource
      ) => resource !== undefined)
    ) {
      const { headers: { etag } } = await ask(write, { body: second })
      t.equal(await tagAt(ask, read), etag, read)
      t.match(await ask(read, { headers: { 'if-none-match': String(etag) } }), { status: 304, text: '' })
    }
  })

  await t.test('/doc describes each endpoint that answers 304', async (t) => {
    const { paths } = (await servers[0].inject('/doc')).json()
    for (const path of ['/tenant/rbac', '/tenant/limits/resources', '/tenant/config', '/doc', '/hello']) {
      const etag = await tagAt(ask, `GET ${path}`)
      t.equal((await ask(`GET ${path}`, { headers: { 'if-none-match': etag } })).status, 304, path)
      t.match(paths[path].get.responses, { 304: { description: /If-None-Match/ } }, path)
      t.notOk('content' in paths[path].get.responses[304], 'it has no body')
    }
    t.notOk(304 in paths['/tenant/secrets'].get.responses)
  })

  await t.test('a secret keeps its tag when it is used, and changes it with each write', async (t) => {
    const tags = [await tagAt(ask, 'GET /tenant/secrets')]
    await servers[0].secrets.get('acme', 'a')
    t.equal(await tagAt(ask, 'GET /tenant/secrets?limit=1'), tags[0], 'after a use, and on a page')
    t.equal((await ask('GET /tenant/secrets', { headers: { 'if-none-match': String(tags[0]) } })).status, 200, 'use counts are current')
    refused(t, await ask('DELETE /tenant/secrets/a', { headers: { 'if-match': '"x"' } }), 412, 'PRECONDITION_FAILED')
    t.equal((await ask('DELETE /tenant/secrets/a', { headers: { 'if-match': String(tags[0]) } })).status, 200)
    tags.push(await tagAt(ask, 'GET /tenant/secrets'))
    await ask('POST /tenant/secrets', { body: { key: 'a', value: 'one' } })
    tags.push(await tagAt(ask, 'GET /tenant/secrets'))
    t.equal(new Set(tags).size, 3)
  })

  await t.test('created records have a Location', async (t) => {
    const platform = caller(t, servers[0], { token: signToken({ sub: 'root', role: 'admin' }) })
    const created = await platform('POST /tenants', { body: { id: 'third', name: 'Third' } })
    t.match(created, { status: 201, headers: { location: '/tenants/third' } })
    t.match(await platform(`GET ${String(created.headers['location'])}`), { status: 200, body: { id: 'third' } })
  })
})
