/** Routes over HTTP and their tools over MCP return the same to each caller. */
import { sql } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { document as toolDocument } from '../tools/app.js'
import { token } from './app.js'

const host = 'mcp.example.com'

const document = {
  ...toolDocument,
  mcp: { url: `http://${host}` },
  tables: {
    ...toolDocument.tables,
    people: {
      tenantScoped: true,
      columns: {
        id: { type: 'uuid' as const, primaryKey: true, default: 'uuid()' as const },
        name: { type: 'text' as const, notNull: true },
        salary: { type: 'bigint' as const }
      }
    }
  },
  routes: [
    ...toolDocument.routes ?? [],
    {
      path: '/people',
      method: 'get' as const,
      requireAuth: true,
      mcp: { name: 'people' },
      queries: [{ table: 'people', operation: 'select' as const, order: { column: 'name' }, excludeFields: ['salary'] }]
    },
    {
      path: '/people/:name',
      method: 'put' as const,
      requiredPermissions: ['people:write'],
      mcp: { name: 'hire' },
      request: {
        params: { name: { type: 'string' as const, maxLength: 20 } },
        body: { salary: { type: 'integer' as const, required: true, minimum: 1 } }
      },
      queries: [{ table: 'people', operation: 'insert' as const, data: { name: '{{params.name}}', salary: '{{body.salary}}' } }],
      response: { hired: '{{params.name}}' }
    },
    {
      path: '/echo/:word',
      method: 'post' as const,
      mcp: { name: 'echo' },
      request: {
        query: { count: { type: 'integer' as const }, tags: { type: 'array' as const }, on: { type: 'boolean' as const } },
        body: { any: { type: 'object' as const } }
      },
      response: {
        word: '{{params.word}}',
        count: '{{query.count}}',
        tags: '{{query.tags}}',
        on: '{{query.on}}',
        any: '{{body.any}}',
        user: '{{auth.sub}}',
        tenant: '{{tenant.id}}'
      }
    }
  ]
}

interface Case {
  readonly tool: string
  readonly input: Readonly<Record<string, unknown>>
  readonly method?: 'GET' | 'POST' | 'PUT'
  readonly url: string
  readonly payload?: object
}

const cases: readonly Case[] = [
  { tool: 'people', input: {}, url: '/people' },
  { tool: 'people', input: { limit: 1, offset: 1 }, url: '/people?limit=1&offset=1' },
  { tool: 'people', input: { limit: 'many' }, url: '/people?limit=many' },
  { tool: 'people', input: { limit: -1 }, url: '/people?limit=-1' },
  { tool: 'get_notes_by_id', input: { id: '00000000-0000-4000-8000-000000000000' }, url: '/notes/00000000-0000-4000-8000-000000000000' },
  { tool: 'get_notes_by_id', input: { id: 'no uuid/%' }, url: `/notes/${encodeURIComponent('no uuid/%')}` },
  { tool: 'hire', input: { name: 'x', body: { salary: 0 } }, method: 'PUT', url: '/people/x', payload: { salary: 0 } },
  { tool: 'hire', input: { name: 'ada', body: { salary: 5 } }, method: 'PUT', url: '/people/ada', payload: { salary: 5 } },
  { tool: 'hire', input: { name: 'x'.repeat(30), body: { salary: 5 } }, method: 'PUT', url: `/people/${'x'.repeat(30)}`, payload: { salary: 5 } },
  {
    tool: 'echo',
    input: { word: 'a/b ü', count: 3, tags: ['x', 'y,z'], on: true, body: { any: { big: 9_007_199_254_740_991, text: 'ü"' } } },
    method: 'POST',
    url: `/echo/${encodeURIComponent('a/b ü')}?count=3&tags=x&tags=y%2Cz&on=true`,
    payload: { any: { big: 9_007_199_254_740_991, text: 'ü"' } }
  },
  { tool: 'echo', input: { word: 'w', tags: [] }, method: 'POST', url: '/echo/w?tags=', payload: {} },
  { tool: 'echo', input: { word: 'w', body: { other: 1 } }, method: 'POST', url: '/echo/w', payload: { other: 1 } },
  { tool: 'echo', input: { word: 'w', body: [] }, method: 'POST', url: '/echo/w', payload: [] }
]

const callers = {
  'a user': token('acme'),
  'a user with the permission': token('acme', { permissions: ['people:*'] }),
  'an administrator': token('acme', { role: 'admin' }),
  "another tenant's user": token('globex'),
  'a user who names its tenant': { ...token('acme'), 'x-tenant-id': 'acme' }
}

const mayHire: ReadonlySet<string> = new Set(['a user with the permission', 'an administrator'])

test('a tool returns the same as its route over HTTP, to each caller', async (t) => {
  const app = await open(t)
  for (const [who, headers] of Object.entries(callers)) {
    for (const { tool, input, method = 'GET', url, payload } of cases) {
      const label = `${who}: ${tool} ${JSON.stringify(input).slice(0, 60)}`
      const response = await app.inject({ method, url, headers, ...payload !== undefined && { payload } })
      const { status, body } = await call(app, headers, tool, input)
      t.equal(status, 200, label)
      const error: { code: string, message: string, details?: { path: string, message: string }[] } = response.json()
      // Over HTTP the input is validated first: a caller without the permission may get 400 instead of 403.
      if (tool === 'hire' && !mayHire.has(who)) {
        t.ok(response.statusCode === 400 || response.statusCode === 403, label)
        t.match(body, { error: { message: 'There is no tool with this name that you can call' } }, label)
      } else if (response.statusCode >= 400) {
        const faults = (error.details ?? []).slice(0, 5).map(({ path, message }) => `${path} ${message}`)
        t.match(body, { result: { isError: true } }, label)
        t.equal(textOf(body), `${error.message}${faults.length === 0 ? '' : `: ${faults.join('; ')}`} (${error.code})`, label)
      } else t.strictSame(JSON.parse(textOf(body)), response.json(), label)
    }
  }
})

test('a rate limit that skips failures counts calls by their own outcome', async (t) => {
  const limited = {
    path: '/limited/:n',
    method: 'get' as const,
    requireAuth: true,
    mcp: { name: 'limited' },
    rateLimit: { max: 1, skipFailedRequests: true },
    request: { params: { n: { type: 'integer' as const } } },
    response: { n: '{{params.n}}' }
  }
  const app = await open(t, { routes: [limited] })
  const headers = token('acme')
  for (let index = 0; index < 3; index++) {
    t.match(textOf((await call(app, headers, 'limited', { n: 'x' })).body), /TENANTRY_VALIDATION_FAILED/, 'a failure is not counted')
  }
  t.match(textOf((await call(app, headers, 'limited', { n: 1 })).body), /"n":1/)
  t.match(textOf((await call(app, headers, 'limited', { n: 1 })).body), /TENANTRY_RATE_LIMITED/)
  t.equal((await app.inject({ url: '/limited/1', headers })).statusCode, 429, 'over HTTP too')
  t.equal((await app.inject({ url: '/limited/1', headers: token('globex') })).statusCode, 200, 'another tenant has its own count')
})

test("a tenant's own rate limit counts calls and requests together", async (t) => {
  const app = await open(t)
  const saved = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: token('acme', { role: 'admin' }),
    payload: {
      routes: [{ path: '/own', method: 'get', requireAuth: true, mcp: { name: 'own' }, rateLimit: { max: 2 }, response: { ok: true } }]
    }
  })
  t.equal(saved.statusCode, 200, saved.body)
  const headers = token('acme')
  t.match(textOf((await call(app, headers, 'own', {})).body), /"ok":true/)
  t.equal((await app.inject({ url: '/own', headers })).statusCode, 200)
  t.match(textOf((await call(app, headers, 'own', {})).body), /TENANTRY_RATE_LIMITED/)
})

test("a message uses one of the plan's requests", async (t) => {
  const app = await open(t, {
    plans: { free: { limits: { api: { requestsPerMinute: 3 } } } },
    rateLimit: { enabled: true }
  })
  const headers = token('acme')
  for (let index = 0; index < 3; index++) {
    t.match(textOf((await call(app, headers, 'echo', { word: 'w' })).body), /"word":"w"/, `message ${index + 1}`)
  }
  t.equal((await call(app, headers, 'echo', { word: 'w' })).status, 429)
})

test('a call is not a second request: hooks run once for each message', async (t) => {
  let requests = 0
  const app = await testServer(t, document, {
    tenants: ['acme'],
    prepare (app) {
      app.addHook('onRequest', async () => {
        requests++
      })
    }
  })
  const { body } = await call(app, token('acme'), 'echo', { word: 'w' })
  t.match(textOf(body), /"user":"ada","tenant":"acme"/, "with the message's identity and tenant")
  t.equal(requests, 1)
})

test('a body with a key such as __proto__ is rejected, as over HTTP', async (t) => {
  const app = await open(t)
  const payload = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"word":"w","body":{"__proto__":{}}}}}'
  const response = await app.inject({
    method: 'POST',
    url: '/mcp',
    headers: { ...token('acme'), host, accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
    payload
  })
  t.equal(response.statusCode, 400)
})

type Server = Awaited<ReturnType<typeof testServer>>

async function open (t: Test, own: object = {}): Promise<Server> {
  const app = await testServer(t, { ...document, ...own }, { tenants: ['acme', 'globex'] })
  await sql`insert into people (tenant_id, name, salary)
    values ('acme', 'bea', 9007199254740991), ('acme', 'cy', 2), ('globex', 'di', 3)`.execute(app.db)
  return app
}

async function call (app: Server, headers: Record<string, string>, name: string, input: object) {
  const response = await app.inject({
    method: 'POST',
    url: '/mcp',
    headers: {
      ...headers,
      host,
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name
    },
    payload: {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name,
        arguments: input,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {}
        }
      }
    }
  })
  return { status: response.statusCode, body: response.json() }
}

function textOf (body: { readonly result?: { readonly content?: ReadonlyArray<{ readonly text: string }> } }): string {
  return body.result?.content?.[0]?.text ?? JSON.stringify(body)
}
