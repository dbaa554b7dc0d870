/** Addresses that plugins compare and return, with a prefix in each form that Fastify accepts: of the plugins, and of their context. */
import { once } from 'node:events'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import { defaultRoleTables } from '../../lib/database/declared-tables.js'
import type { Route } from '../../lib/schema/route.js'
import auth from '../../plugins/auth/index.js'
import configRoutes from '../../plugins/config-routes/index.js'
import database from '../../plugins/database/index.js'
import files from '../../plugins/files/index.js'
import mcp from '../../plugins/mcp/index.js'
import metrics from '../../plugins/metrics/index.js'
import openapi from '../../plugins/openapi/index.js'
import queue from '../../plugins/queue/index.js'
import rateLimit from '../../plugins/rate-limit/index.js'
import rbac from '../../plugins/rbac/index.js'
import realtime from '../../plugins/realtime/index.js'
import system from '../../plugins/system/index.js'
import tenancy from '../../plugins/tenancy/index.js'
import tenantConfig from '../../plugins/tenant-config/index.js'
import tenants from '../../plugins/tenants/index.js'
import tools from '../../plugins/tools/index.js'
import workflows from '../../plugins/workflows/index.js'
import { listen } from '../helpers/server.js'
import { signToken, testSecret } from '../helpers/tokens.js'
import { type Ask, caller, type Reply, type Request } from '../http/caller.js'

const routes: Route[] = [
  { path: '/orders', method: 'post', requireAuth: true, queries: [{ table: 'orders', operation: 'insert' }] },
  { path: '/orders/:id', method: 'get', requireAuth: true, queries: [{ table: 'orders', operation: 'select', id: '{{params.id}}' }] }
]

async function register (app: FastifyInstance, options: { readonly prefix?: string }, path: string): Promise<void> {
  await app.register(database, {
    provider: 'embedded',
    roleTables: defaultRoleTables,
    tables: { orders: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' } } } }
  })
  await app.register(rateLimit)
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(tools)
  await app.register(metrics, options)
  await app.register(openapi, options)
  await app.register(queue, options)
  app.queue.define('report', {}, async () => {})
  await app.register(mcp, { ...options, url: 'https://api.example.com' })
  await app.register(tenants, options)
  await app.register(rbac, options)
  await app.register(files, { ...options, path })
  await app.register(realtime, options)
  await app.register(workflows, {
    ...options,
    workflows: [{ id: 'greet', steps: [{ id: 'text', type: 'llm', prompt: 'Hi', model: 'small' }] }],
    steps: { llm: { run: async () => 'Hello' } }
  })
  await app.register(tenantConfig, options)
  await app.register(system, options)
  await app.register(configRoutes, { ...options, routes })
}

/** Sends a request, and checks the status of its response. */
function expecting (t: Test, ask: Ask) {
  return async (status: number, target: string, request: Request = {}): Promise<Reply> => {
    const reply = await ask(target, request)
    t.equal(reply.status, status, `${target}: ${reply.text.slice(0, 300)}`)
    return reply
  }
}

const tenant = signToken({ tenant_id: 'acme', role: 'admin' })
const platform = signToken({ sub: 'root', role: 'admin' })

for (const [prefix, place] of [['/api/', 'plugins'], ['api', 'plugins'], ['/api/', 'context']] as const) {
  t.test(`addresses are right with the prefix ${prefix} of the ${place}`, async (t) => {
    const app = Fastify({ pluginTimeout: 0, forceCloseConnections: true })
    t.teardown(() => app.close())
    app.get('/api/mine/:id', async () => 'of the app')
    if (place === 'plugins') await register(app, { prefix }, t.testdir())
    else await app.register(async (context) => await register(context, {}, t.testdir()), { prefix })
    const [ask, root] = [expecting(t, caller(t, app, { token: tenant })), expecting(t, caller(t, app, { token: platform }))]

    const created = await ask(201, 'POST /api/orders', { body: {} })
    t.equal(created.headers.location, `/api/orders/${String(created.body.id)}`)
    const made = await root(201, 'POST /api/tenants', { body: { id: 'globex', name: 'Globex', plan: 'free' } })
    t.equal(made.headers.location, '/api/tenants/globex')
    const role = await root(201, 'POST /api/rbac/roles', { body: { name: 'clerk' } })
    t.equal(role.headers.location, `/api/rbac/roles/${role.body.id}`)
    const job = await root(201, 'POST /api/queue/jobs', { body: { name: 'report', data: {} } })
    t.equal(job.headers.location, `/api/queue/jobs/${job.body.id}`)

    const signed = await ask(201, 'POST /api/files/presign', { body: { name: 'a.txt', contentType: 'text/plain', size: 3 } })
    t.match(signed.body.url, /^\/api\/files\/[^/]+\/content\?/)
    await ask(200, `PUT ${signed.body.url}`, { raw: 'abc', type: 'text/plain' })

    const run = await ask(202, 'POST /api/agent/workflow/run', { body: { ref: 'greet' } })
    t.match(run.body.statusUrl, /^\/api\/agent\/workflow\/status\?/)

    const conflict = await ask(409, 'POST /api/tenant/config', { body: { routes: [{ path: '/mine/:id', method: 'get', response: {} }] } })
    t.match(conflict.body, { code: 'TENANTRY_ROUTE_CONFLICT' })
    await ask(200, 'POST /api/tenant/config', { body: { routes: [{ path: '/own', method: 'get', response: { own: true } }] } })
    t.match((await ask(200, 'GET /api/own')).body, { own: true })

    const resource = await ask(200, 'GET /api/.well-known/oauth-protected-resource/mcp')
    t.equal(resource.body.resource, 'https://api.example.com/api/mcp')
    t.match((await root(200, 'GET /api/system/info')).body.plugins, { openapi: true, billing: false })
    t.equal((await app.inject('/api/none')).statusCode, 404)
    t.match((await root(200, 'GET /api/metrics')).text, /route="\(unknown\)"/)
    await ask(200, 'GET /api/ui')
    await ask(200, 'GET /api/ui/static/swagger-ui.css')

    const socket = new WebSocket(`${(await listen(app)).replace('http', 'ws')}/api/realtime`, ['tenantry', `bearer.${tenant}`])
    t.teardown(() => socket.terminate())
    await once(socket, 'open')
    t.equal(socket.protocol, 'tenantry')
  })
}
