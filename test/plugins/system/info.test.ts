import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { checkConfig, versionOf } from '../../../lib/configuration/index.js'
import { version } from '../../../lib/version.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testDocument, testServers } from '../../helpers/server.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'

const admin = { token: signToken({ role: 'admin', sub: 'ops' }) }
const digest = /^[0-9a-f]{16}$/
const id = /^[0-9a-f-]{36}$/

test('the plugin works alone, and reports the available data', async (t) => {
  const { app } = await testApp(t, { plugins: { system: { configurationVersion: undefined, off: undefined } } })
  const { status, body, headers } = await caller(t, app, admin)('GET /system/info')
  t.equal(status, 200)
  t.equal(headers['cache-control'], 'no-store')
  t.match(body, {
    version,
    node: process.version,
    uptime: Number,
    startedAt: /Z$/,
    engine: null,
    instance: null,
    instances: null,
    configuration: { version: null },
    database: null,
    cache: null,
    queue: null
  })
  t.same(groupsOf(body), ['system'])
})

test('a group with a prefix of its own is reported', async (t) => {
  const routes = async (app: FastifyInstance) => {
    app.get('/own/tools', { config: { access: 'open' } }, async () => ({}))
  }
  const { app } = await testApp(t, { plugins: { audit: { prefix: '/api' }, cache: { routes: false }, system: {} }, routes })
  const { body } = await caller(t, app, admin)('GET /system/info')
  t.same(groupsOf(body), ['audit', 'system'])
})

test('two servers of one database report each other', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const routes = [{ path: '/audit', method: 'get' as const, response: { own: true } }]
  const [first, second] = await testServers(t, { plugins: { audit: false }, routes }, { engine, tenants: ['acme'] })
  const [ask, askSecond] = [caller(t, first, admin), caller(t, second, admin)]

  await t.test('running servers are listed with their kinds', async (t) => {
    const { instance } = (await askSecond('GET /system/info')).body
    const alive = async () => (await ask('GET /system/info')).body
    await until('both are listed', async () => listed(await alive()).length === 2)
    const body = await alive()
    t.match(body['instance'], id)
    t.same(listed(body), [String(body['instance']), String(instance)].sort())
    t.match(body, {
      engine: { kind: 'postgres', version: /^\d+(?:\.\d+)*$/ },
      configuration: { version: digest },
      database: { total: Number, idle: Number, waiting: 0 },
      cache: { provider: 'memory' },
      queue: { workers: Number, running: 0, working: true }
    })
    t.equal(Object(body['plugins']).audit, false, 'a disabled group, whose path a route has')
    for (const group of ['health', 'system', 'tenancy', 'usage', 'login']) t.equal(Object(body['plugins'])[group], true, group)
    t.same(body['configuration'], (await askSecond('GET /system/info')).body['configuration'])
  })

  await t.test('only platform administrators get the information, without secrets', async (t) => {
    refused(t, await ask('GET /system/info', { token: signToken({ role: 'admin', tenant_id: 'acme' }) }), 403, 'FORBIDDEN')
    refused(t, await caller(t, first)('GET /system/info'), 401, 'TOKEN_MISSING')
    const { text } = await ask('GET /system/info')
    const { hostname, port, pathname } = new URL(connectionString)
    for (const hidden of [hostname, port, pathname.slice(1), testSecret, process.cwd()]) t.notOk(text.includes(hidden), hidden)
  })

  await t.test('a stopped one is no longer listed', async (t) => {
    await second.close()
    t.equal(listed((await ask('GET /system/info')).body).length, 1)
  })
})

test('a configuration has a version', async (t) => {
  const of = (document: object, env: Record<string, string> = {}) => versionOf(checkConfig({ ...testDocument({}), ...document }, { env }))
  const first = of({})
  t.match(first, digest)
  t.equal(of({}), first)
  t.not(of({ rateLimit: { enabled: true } }), first, 'another document has another version')
  const routes = [{ path: '/a', method: 'get', response: { a: 1 } }, { path: '/b', method: 'get', response: { a: 1 } }]
  t.not(of({ routes }), of({ routes: routes.toReversed() }), 'the order of routes counts')
  t.equal(
    of({ routes: [{ response: { a: 1 }, method: 'get', path: '/a' }] }),
    of({ routes: routes.slice(0, 1) }),
    'the order of members does not'
  )
  const jwt = { secret: '{{env.KEY}}', issuer: 'me' }
  const [key, other] = [
    secretText('a key of 32 characters, or of more', 'a key'),
    secretText('another key of 32 characters, or so', 'another key')
  ]
  t.equal(of({ jwt }, { KEY: key }), of({ jwt }, { KEY: other }), 'values of settings do not count')
  t.equal(of({ jwt: { secret: key } }), of({ jwt: { secret: other } }), 'nor do secrets in the document')
  t.not(of({ jwt: { secret: key, issuer: 'me' } }), of({ jwt: { secret: key, issuer: 'you' } }), 'the members beside them do')
  t.equal(
    of({ credentials: { chat: { webhookUrl: 'https://chat.example/one' } } }),
    of({ credentials: { chat: { webhookUrl: 'https://chat.example/two' } } })
  )
  const postgres = (password: string) => ({
    databaseProvider: 'postgres',
    postgres: { connectionString: `postgres://user:${password}@db.example/app` }
  })
  t.equal(of(postgres('one')), of(postgres('two')))
})

function listed ({ instances }: Record<string, unknown>): string[] {
  return Array.isArray(instances) ? instances.map((each: { id: string }) => each.id) : []
}

function groupsOf ({ plugins }: Record<string, unknown>): string[] {
  return Object.entries(Object(plugins)).filter(([, isOn]) => isOn).map(([name]) => name)
}
