/** MCP servers that misbehave, and tenants that share them. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { FastifyInstance } from 'fastify'
import t, { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refuseAudit } from '../../helpers/refused-audit.js'
import { missSuccession, replaceTenant } from '../../helpers/succession.js'
import { until as untilTrue } from '../../helpers/until.js'
import { faulty, isAlive, open, until } from './app.js'

// Its tests mostly wait.
t.jobs = 4

test('a tool that never responds ends at its timeout', async (t) => {
  const { as } = await open(t, [{ ...faulty, timeoutMs: 8000 }])
  const acme = as('acme')
  t.match(await until(200, () => acme.execute('faulty.add', { n: 2 })), { text: '2' })
  t.match(await acme.execute('faulty.silent'), { status: 504, body: { code: 'TENANTRY_TOOL_TIMEOUT' } })
  t.match(await acme.execute('faulty.add', { n: 2 }), { status: 200, text: '4' }, 'the process was healthy, and is still alive')
})

test('structured results are checked within a bound', async (t) => {
  const { as } = await open(t, [faulty])
  const acme = as('acme')
  t.match(await acme.execute('faulty.structured', { n: 1 }), { status: 200, body: { isError: false, structuredContent: { n: 1 } } })
  t.match(await acme.execute('faulty.unstructured'), { status: 200, text: /\/n must be an integer/, body: { isError: true } })
})

test('a server that never starts, or dies during its start, fails only for its callers', async (t) => {
  const { as } = await open(t, [
    { ...faulty, name: 'mute', env: { NEVER_STARTS: '1' }, timeoutMs: 500 },
    { ...faulty, name: 'dead', env: { DIES_AT_START: '1' } },
    { name: 'missing', command: '/no/such/program' },
    faulty
  ])
  const acme = as('acme')
  t.match((await acme.execute('mute.add')).status, /50[24]/)
  t.match(await acme.execute('dead.add'), { status: 502, body: { code: 'TENANTRY_TOOL_FAILED' } })
  t.match(await acme.execute('missing.add'), { status: 502 })
  t.match(await acme.execute('faulty.add'), { status: 200 })
  const { body } = await acme.get('/agent/mcp/tools')
  t.strictSame([...new Set(Object(body).tools.map(({ server }: { server: string }) => server))], ['faulty'])
})

test('a server that dies in a call is a 502, and starts again', async (t) => {
  const { as } = await open(t, [faulty])
  const acme = as('acme')
  t.match(await acme.execute('faulty.add', { n: 5 }), { text: '5' })
  t.match(await acme.execute('faulty.die'), { status: 502, body: { code: 'TENANTRY_TOOL_FAILED' } })
  t.match(await until(200, () => acme.execute('faulty.add')), { text: '1' }, 'a new process')
})

test('a call that was made is answered although its audit entry cannot be written', async (t) => {
  const lines: string[] = []
  const stream = {
    write (line: string) {
      lines.push(line)
    }
  }
  const { app, as } = await open(t, [faulty], {}, {}, { logger: { level: 'error', stream } })
  await refuseAudit(app.db, 'mcp.execute')
  const acme = as('acme')
  t.match(await acme.execute('faulty.add', { n: 2 }), { status: 200, text: '2' })
  t.match(await acme.execute('faulty.die'), { status: 502, body: { code: 'TENANTRY_TOOL_FAILED' } })
  const logged = lines.map((line) => JSON.parse(line)).filter(({ action }) => action === 'mcp.execute')
  t.match(logged, [
    { tenant: 'acme', target: 'faulty.add', outcome: 'success', userId: 'ada' },
    { tenant: 'acme', target: 'faulty.die', outcome: 'failure', userId: 'ada' }
  ])
})

test('a process killed during a call is replaced', async (t) => {
  const { as } = await open(t, [faulty])
  const acme = as('acme')
  const [pid = 0, child = 0] = (await acme.execute('faulty.child')).text.split(' ').map(Number)
  const call = acme.execute('faulty.silent')
  process.kill(pid, 'SIGKILL')
  t.match(await call, { status: 502 })
  t.match(await until(200, () => acme.execute('faulty.add')), { text: '1' })
  if (isAlive(child)) process.kill(child, 'SIGKILL')
})

test('processes and their child processes end with the server', async (t) => {
  const { app, as } = await open(t, [faulty])
  const pids = (await as('acme').execute('faulty.child')).text.split(' ').map(Number)
  t.ok(pids.every(isAlive))
  await app.close()
  while (pids.some(isAlive)) await new Promise((resolve) => setTimeout(resolve, 20))
  t.pass('all have ended')
})

/** Calls tools of `faulty` for tenants of any age: a token may be older than the tenant. */
function caller (app: FastifyInstance): (tenant: string, tool: string) => Promise<string> {
  const call = { server: 'faulty', args: {}, depth: 0, actor: noActor, signal: new AbortController().signal }
  return async (tenant, tool) => {
    const { content } = await app.mcpServers.execute({ ...call, tenant: tenantRef(tenant), tool })
    return String(Object(content[0]).text)
  }
}

test('a later tenant gets no process of an earlier tenant with its id, also on a server that missed the deletion', async (t) => {
  const { app } = await open(t, [faulty], {}, {}, { engine: await postgresSection(t) })
  const run = caller(app)
  const pids = (await run('acme', 'child')).split(' ').map(Number)
  t.same([await run('acme', 'add'), await run('acme', 'add'), await run('globex', 'add')], ['1', '2', '1'])
  await missSuccession(app, 'acme')
  t.same([await run('acme', 'add'), await run('globex', 'add')], ['1', '2'])
  await untilTrue('the processes of the earlier tenant end', () => !pids.some(isAlive))
})

test('the processes of a tenant end with it, and a later tenant with its id gets a new one', async (t) => {
  const { app } = await open(t, [faulty])
  const run = caller(app)
  const pids = (await run('acme', 'child')).split(' ').map(Number)
  t.same([await run('acme', 'add'), await run('acme', 'add'), await run('globex', 'add')], ['1', '2', '1'])
  await app.tenants.delete('acme')
  await untilTrue('the processes end', () => !pids.some(isAlive))
  await app.tenants.create({ id: 'acme', name: 'Another' })
  t.same([await run('acme', 'add'), await run('globex', 'add')], ['1', '2'])
})

test('a tool of a server that was found for a tenant is not called for a later tenant with its id', async (t) => {
  const { app } = await open(t, [faulty])
  const [run, { signal }] = [caller(app), new AbortController()]
  const found = await app.mcpServers.toolsFor(['faulty.add'], { tenant: tenantRef('acme'), actor: noActor, depth: 0, signal })
  await replaceTenant(app, 'acme')
  await t.rejects(async () => await found.get('faulty.add')?.run({}, signal), { code: 'TENANTRY_TENANT_UNKNOWN' })
  t.equal(await run('acme', 'add'), '1', 'the process of the later tenant has no earlier call')
})

test('garbage between messages is skipped, and a huge message fails only its own call', async (t) => {
  const { as } = await open(t, [{ ...faulty, shared: true, timeoutMs: 600_000 }])
  const [acme, globex] = [as('acme'), as('globex')]
  const { text: pid } = await globex.execute('faulty.pid')
  t.match(await acme.execute('faulty.garbage'), { status: 200, text: 'after garbage' })
  t.match(await acme.execute('faulty.huge'), { status: 502, body: { message: /more than 4194304 bytes: request less/ } })
  t.match(await globex.execute('faulty.pid'), { status: 200, text: pid }, 'the process still runs')
})

test('errors of a tool are results', async (t) => {
  const { as } = await open(t, [faulty])
  const acme = as('acme')
  t.match(await acme.execute('faulty.error'), { status: 200, text: 'no such file', body: { isError: true } })
  t.match(await acme.execute('faulty.refuse'), { status: 200, text: /refused/, body: { isError: true } })
  t.match(await acme.execute('faulty.strange'), { status: 502 }, 'no result at all')
  t.match(await acme.execute('faulty.add', { n: 0 }), {
    status: 400,
    body: { details: [{ path: '/body/args/n', message: 'must be at least 1' }] }
  })
  t.match(await acme.execute('faulty.add', { n: 1, m: 2 }), { status: 400, body: { details: [{ path: '/body/args/m' }] } })
})

test('a changed list of tools is read again', async (t) => {
  const { as } = await open(t, [faulty])
  const names = async (tenant: string) =>
    Object((await as(tenant).get('/agent/mcp/tools')).body).tools.map(({ name }: { name: string }) => name)
  t.notOk((await names('acme')).includes('added'))
  t.notOk((await names('globex')).includes('added'))
  await as('acme').execute('faulty.change')
  t.ok((await names('acme')).includes('added'))
  t.notOk((await names('globex')).includes('added'), 'another tenant does not see the tools of the process')
})

test('text from a server is bounded', async (t) => {
  const { as } = await open(t, [faulty])
  const { tools } = Object((await as('acme').get('/agent/mcp/tools')).body)
  const { description } = tools.find(({ name }: { name: string }) => name === 'env')
  t.equal(description.length, 2000)
  t.notMatch(description, /[\u0000\u202e]/) // eslint-disable-line no-control-regex -- what must not be there
})

test("a process gets PATH and the document's variables", async (t) => {
  const { as } = await open(t, [{ ...faulty, env: { GIVEN: '{{env.FOR_TOOLS}}' } }], {}, {}, {
    env: { FOR_TOOLS: 'yes', SECRET_OF_SERVER: 'no' }
  })
  const { text } = await as('acme').execute('faulty.env')
  t.strictSame(Object.keys(JSON.parse(text)).sort(), ['GIVEN', 'PATH'])
  t.equal(JSON.parse(text).GIVEN, 'yes')
})

test("tenants share a few processes one after the other, without seeing each other's data", async (t) => {
  const { as } = await open(t, [{ ...faulty, timeoutMs: 600_000 }], { mcpMaxProcesses: 2 })
  const pids = new Set<number>()
  const texts = await Promise.all(Array.from({ length: 12 }, async (_, index) => {
    const tenant = as(`t${index}`)
    const alive = [...pids].filter(isAlive).length
    const { text } = await tenant.execute('faulty.pid')
    pids.add(Number(text))
    t.ok(alive <= 2, `${alive} processes`)
    return (await tenant.execute('faulty.add')).text
  }))
  t.ok(texts.every((text) => text === '1'), 'each has its own process')
  t.equal(pids.size >= 12, true, 'a process serves no second tenant')
})

test('a tenant whose calls never end leaves processes and lists to other tenants', async (t) => {
  const servers = Array.from({ length: 8 }, (_, index) => ({ ...faulty, name: `s${index}`, timeoutMs: 600_000 }))
  const { app, as } = await open(t, servers)
  const up = async () =>
    Object((await as('acme').get('/agent/mcp/servers')).body).data.filter(({ status }: { status: string }) => status === 'up').length
  const silent = servers.map(({ name }) => as('acme').execute(`${name}.silent`))
  while (await up() < 6) await new Promise((resolve) => setTimeout(resolve, 50))
  t.match(await as('globex').execute('s0.add', { n: 2 }), { status: 200, text: '2' })
  const { body } = await as('globex').get('/agent/mcp/tools')
  t.equal(new Set(Object(body).tools.map(({ server }: { server: string }) => server)).size, 8, 'the tools of all servers')
  t.equal(await up(), 6)

  const more = Array.from({ length: 92 }, () => as('acme').execute('s7.silent'))
  t.match(await as('acme').execute('s0.add'), { status: 503, body: { code: 'TENANTRY_TOOLS_BUSY' } })
  t.match(await as('acme').get('/agent/mcp/tools'), { status: 503 }, 'an incomplete list is not returned')
  t.match(await as('globex').execute('s7.add', { n: 3 }), { status: 200 })
  await app.close()
  for (const { status } of await Promise.all([...silent, ...more])) t.match(status, /50[24]/)
})

test("a caller's token is not sent to a server", async (t) => {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(JSON.stringify(request.headers))
    response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = Object(server.address())
  const { as } = await open(t, [{
    name: 'remote',
    url: `http://127.0.0.1:${port}/mcp`,
    headers: { authorization: 'Bearer of-the-document' }
  }])
  t.match(await as('acme').execute('remote.any'), { status: 502 })
  t.ok(seen.length > 0)
  for (const headers of seen) {
    t.match(headers, /Bearer of-the-document/)
    t.notMatch(headers, /eyJ|x-tenant-id/)
  }
})

test("a server's redirect to another origin gets neither the call nor the headers", async (t) => {
  const seen: string[] = []
  const other = createServer((request, response) => {
    seen.push(`other ${request.method} ${JSON.stringify(request.headers)}`)
    response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(other, 'listening')
  const elsewhere = `http://127.0.0.1:${Object(other.address()).port}/mcp`
  const server = createServer(({ method, url, headers }, response) => {
    seen.push(`${method} ${url} ${String(headers['x-api-key'])}`)
    const location = url === '/within' ? '/moved' : elsewhere
    response.writeHead(307, { location }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    other.close()
  })
  const { port } = Object(server.address())
  const { as } = await open(t, [{ name: 'remote', url: `http://127.0.0.1:${port}/within`, headers: { 'x-api-key': 'of-the-document' } }])
  t.match(await as('acme').execute('remote.any'), { status: 502 })
  t.ok(seen.includes('POST /moved of-the-document'), 'a redirect within the origin is followed')
  t.notMatch(seen.join('\n'), /^other/m)
})
