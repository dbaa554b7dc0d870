/** Third-party MCP servers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { test } from 'tap'
import { freePort } from '../../helpers/free-port.js'
import { open, program, until } from './app.js'

async function folder (t: Test): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'mcp-')))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

test('without servers the lists are empty, and a call is a 404', async (t) => {
  const { as } = await open(t, [])
  const acme = as('acme')
  t.match(await acme.get('/agent/mcp/servers'), { status: 200, body: { data: { length: 0 }, pagination: { limit: 20, offset: 0, total: 0 } } })
  t.match(await acme.get('/agent/mcp/tools'), { status: 200, body: { tools: { length: 0 } } })
  t.match(await acme.execute('files.read', {}), { status: 404, body: { code: 'TENANTRY_NOT_FOUND' } })
})

test('tools of a program are listed and called', async (t) => {
  const path = await folder(t)
  await writeFile(join(path, 'note.txt'), 'a note')
  const { app, as } = await open(t, [{
    name: 'files',
    ...program('server-filesystem', path),
    allowTools: ['read_text_file', 'list_directory']
  }])
  const acme = as('acme')
  t.strictSame((await acme.get('/agent/mcp/servers')).body, {
    data: [{ name: 'files', transport: 'stdio', status: 'idle', tools: 0 }],
    pagination: { limit: 20, offset: 0, total: 1 }
  })
  const { body } = await acme.get('/agent/mcp/tools')
  t.match(body, {
    tools: [{ server: 'files', name: 'read_text_file', inputSchema: { properties: { path: { type: 'string' } } } }, {
      server: 'files',
      name: 'list_directory'
    }]
  })
  t.strictSame((await acme.get('/agent/mcp/servers')).body, {
    data: [{ name: 'files', transport: 'stdio', status: 'up', tools: 2 }],
    pagination: { limit: 20, offset: 0, total: 1 }
  })
  t.match((await acme.get('/agent/health')).body, { mcp: { files: 'up' } })
  t.match((await as('globex').get('/agent/health')).body, { mcp: { files: 'idle' } })

  const calls = async () => (await app.usage.summary('acme')).api_calls
  const before = await calls()
  t.match(await acme.execute('files.read_text_file', { path: join(path, 'note.txt') }), {
    status: 200,
    body: { isError: false, content: [{ type: 'text', text: 'a note' }] }
  })
  t.equal(await calls() - before, 1)
  t.match(await acme.execute('files.read_text_file', { path: '/etc/passwd' }), { status: 200, body: { isError: true } }, 'its own error')
  t.match(
    await acme.execute('files.write_file', { path: join(path, 'x'), content: 'x' }),
    { status: 404 },
    'a tool that the document does not allow'
  )
  t.match(await acme.execute('other.read_text_file', {}), { status: 404 })
  t.match(await acme.execute('files.read_text_file', {}), {
    status: 400,
    body: { details: [{ path: '/body/args/path', message: 'is required' }] }
  })
  t.match(await acme.execute('files.read_text_file', { path: 7 }), {
    status: 400,
    body: { details: [{ path: '/body/args/path', message: 'must be a string' }] }
  })
  t.match(await acme.execute('files.read_text_file', 'text'), { status: 400 })
  t.match(await as(null).execute('files.read_text_file', { path }), { status: 400, body: { code: 'TENANTRY_TENANT_REQUIRED' } })

  const entries = await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'user_id', 'target', 'outcome'])
    .where('action', '=', 'mcp.execute').orderBy('id').execute()
  t.strictSame(entries.map(({ outcome, target, user_id: user, tenant_id: tenant }) => [tenant, user, target, outcome]), [
    ['acme', 'ada', 'files.read_text_file', 'success'],
    ['acme', 'ada', 'files.read_text_file', 'failure']
  ], 'a call that was not executed is not audited')
})

test("a tenant's data in a process stays its own", async (t) => {
  const path = await folder(t)
  const { as } = await open(t, [{ name: 'memory', ...program('server-everything', 'stdio') }, {
    name: 'graph',
    ...program('server-memory'),
    env: { MEMORY_FILE_PATH: join(path, 'shared.json') },
    shared: true
  }])
  const entity = { entities: [{ name: 'secret', entityType: 'thing', observations: ['of acme'] }] }
  t.match(await as('acme').execute('graph.create_entities', entity), { status: 200 })
  t.match(
    (await as('globex').execute('graph.read_graph', {})).body,
    { structuredContent: { entities: [{ name: 'secret' }] } },
    'one process for all, as the document says'
  )
  t.match(await as('acme').execute('memory.echo', { message: 'hello' }), { status: 200, text: /hello/ })
  t.match((await as('globex').get('/agent/mcp/servers')).body, {
    data: [{ name: 'memory', status: 'idle' }, { name: 'graph', status: 'up' }]
  })
})

test('tools of a server over HTTP are listed and called', async (t) => {
  const port = await freePort()
  const { command = '', args = [] } = program('server-everything', 'streamableHttp')
  const start = async () => {
    const child = spawn(command, [...args], { env: { PORT: String(port) }, stdio: ['ignore', 'ignore', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    await once(child.stderr, 'data')
    child.stderr.resume()
    return child
  }
  const first = await start()
  const { as } = await open(t, [{ name: 'everything', url: `http://127.0.0.1:${port}/mcp`, timeoutMs: 10_000 }])
  const acme = as('acme')
  t.match(await until(200, () => acme.execute('everything.echo', { message: 'hello' })), { text: /hello/ })
  t.match(await acme.execute('everything.echo', { message: 7 }), { status: 400 })
  t.match((await acme.get('/agent/mcp/servers')).body, { data: [{ name: 'everything', transport: 'http', status: 'up' }] })
  first.kill('SIGKILL')
  await once(first, 'close')
  t.match(await acme.execute('everything.echo', { message: 'hello' }), { status: 502, body: { code: 'TENANTRY_TOOL_FAILED' } })
  await start()
  t.match(await until(200, () => acme.execute('everything.echo', { message: 'again' })), { text: /again/ }, 'a new session')
})
