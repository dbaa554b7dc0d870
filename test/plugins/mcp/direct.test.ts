/** Messages that are answered without the protocol library: with the same responses. */
import * as sdk from '@modelcontextprotocol/server'
import { sql } from 'kysely'
import { test } from 'tap'
import { recogniser } from '../../../plugins/mcp/common-message.js'
import { testServer } from '../../helpers/server.js'
import { document, token } from './app.js'

const host = 'mcp.example.com'
const accept = 'application/json, text/event-stream'
const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { roots: {} }
}

interface Ask {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly id?: unknown
}

function messageOf (isModern: boolean, { method, params = {}, id = 1 }: Ask, meta: object = {}) {
  const { name } = params
  const own = { ...isModern && envelope, ...meta }
  return {
    headers: {
      host,
      accept,
      'content-type': 'application/json',
      ...isModern && { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...typeof name === 'string' && { 'mcp-name': name } }
    },
    payload: { jsonrpc: '2.0', id, method, params: { ...params, ...Object.keys(own).length > 0 && { _meta: own } } }
  }
}

const recognise = recogniser(sdk)

test("responses to calls and lists equal the library's", async (t) => {
  const extra = [
    { path: '/list', method: 'get' as const, mcp: { name: 'a_list' }, response: { data: [1, 2] } },
    { path: '/text', method: 'get' as const, mcp: { name: 'a_text' }, response: 'a {{query.x}}' },
    { path: '/nothing', method: 'get' as const, mcp: { name: 'nothing' }, response: '{{query.x}}' },
    { path: '/staff', method: 'get' as const, requiredPermissions: ['staff:read'], mcp: { name: 'staff' }, response: {} }
  ]
  const app = await testServer(t, { ...document, routes: [...document.routes ?? [], ...extra], mcp: { url: `http://${host}` } }, {
    tenants: ['acme']
  })
  await sql`insert into notes (tenant_id, title, rank) values ('acme', ${'a "quoted" title, \u2028'}, 9007199254740993)`.execute(app.db)
  const first = await app.inject({ url: '/notes', headers: token('acme') })
  const asks: Ask[] = [
    { method: 'tools/list' },
    { method: 'tools/list', id: 'a "text"', params: { cursor: Buffer.from('get_notes').toString('base64url') } },
    { method: 'tools/list', params: { cursor: '../' } },
    { method: 'tools/call', params: { name: 'get_notes', arguments: {} } },
    { method: 'tools/call', params: { name: 'get_notes_by_id', arguments: { id: first.json().data[0].id } } },
    { method: 'tools/call', params: { name: 'get_notes_by_id', arguments: { id: '00000000-0000-4000-8000-000000000000' } } },
    { method: 'tools/call', params: { name: 'words', arguments: { q: 'x', tags: ['a'] } } },
    { method: 'tools/call', params: { name: 'words' } },
    { method: 'tools/call', params: { name: 'a_list' } },
    { method: 'tools/call', params: { name: 'a_text' } },
    { method: 'tools/call', params: { name: 'nothing' } },
    { method: 'tools/call', params: { name: 'staff' } },
    { method: 'tools/call', params: { name: 'none' } }
  ]
  for (const isModern of [true, false]) {
    for (const ask of asks) {
      const [direct, library] = [messageOf(isModern, ask), messageOf(isModern, ask, { progressToken: 7 })]
      t.ok(recognise(direct.payload, direct.headers), 'without the library')
      t.equal(recognise(library.payload, library.headers), null, 'with the library')
      const [own, theirs] = await Promise.all([direct, library].map(async ({ headers, payload }) => {
        const response = await app.inject({ method: 'POST', url: '/mcp', headers: { ...headers, ...token('acme') }, payload })
        const { statusCode, body, headers: { 'content-type': type } } = response
        return { statusCode, type, message: JSON.parse(body.replace(/^event: message\ndata: /, '')) }
      }))
      t.strictSame(own, theirs, `${ask.method} ${JSON.stringify(ask.params)}`)
    }
  }
})

test('a row whose JSON has line breaks is one event of the older protocol', async (t) => {
  const id = '00000000-0000-4000-8000-000000000001'
  const app = await testServer(t, {
    tables: { drafts: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true }, content: { type: 'json' } } } },
    routes: [{ path: '/drafts', method: 'get', requireAuth: true, mcp: true, queries: [{ table: 'drafts', operation: 'select' }] }],
    mcp: { url: `http://${host}` }
  }, { tenants: ['acme'] })
  await sql`insert into drafts (tenant_id, id, content) values ('acme', ${id}, ${'{"a":\r\n\n1,\r"b": [\n]}'})`.execute(app.db)
  const { headers, payload } = messageOf(false, { method: 'tools/call', params: { name: 'get_drafts' } })
  const { body } = await app.inject({ method: 'POST', url: '/mcp', headers: { ...headers, ...token('acme') }, payload })
  const [, data = ''] = /^event: message\ndata: (.*)\n\n$/.exec(body) ?? []
  t.match(JSON.parse(data), { result: { structuredContent: { data: [{ id, content: { a: 1, b: { length: 0 } } }] } } })
})

test('a malformed message goes to the library', async (t) => {
  const ask = { method: 'tools/call', params: { name: 'words', arguments: {} } }
  const { headers, payload } = messageOf(true, ask)
  const params = (more: object) => ({ ...payload, params: { ...payload.params, ...more } })
  const meta = (more: object) => params({ _meta: { ...envelope, ...more } })
  t.ok(recognise(payload, headers))
  t.ok(recognise(meta({ 'tenantry/toolDepth': 1 }), headers))
  const messages = {
    'an extra member': { ...payload, more: 1 },
    'no id': { ...payload, id: undefined },
    'an id that is not an integer': { ...payload, id: 1.5 },
    'another version of JSON-RPC': { ...payload, jsonrpc: '1.0' },
    'another method': { ...payload, method: 'resources/list' },
    'a method that differs from the header': { ...payload, method: 'tools/list' },
    'a name that differs from the header': params({ name: 'other' }),
    'arguments that are not an object': params({ arguments: [] }),
    'an extra parameter': params({ requestState: 'x' }),
    'no envelope': params({ _meta: undefined }),
    'another version': meta({ 'io.modelcontextprotocol/protocolVersion': '2025-11-25' }),
    'a client without a name': meta({ 'io.modelcontextprotocol/clientInfo': { version: '1' } }),
    'no capabilities': meta({ 'io.modelcontextprotocol/clientCapabilities': undefined }),
    'a log level': meta({ 'io.modelcontextprotocol/logLevel': 'info' }),
    'a batch': [payload],
    'no message': 'text'
  }
  for (const [name, message] of Object.entries(messages)) t.equal(recognise(message, headers), null, name)
  t.equal(recognise(payload, { ...headers, accept: 'application/json' }), null, 'another Accept')
  t.equal(recognise(payload, { ...headers, 'content-type': 'text/plain' }), null, 'another type')
  t.equal(recognise(payload, { ...headers, 'mcp-protocol-version': '2025-11-25' }), null, "a version that differs from the envelope's")
  const older = messageOf(false, ask)
  t.ok(recognise(older.payload, { ...older.headers, 'mcp-protocol-version': '2025-06-18' }))
  t.equal(recognise(older.payload, { ...older.headers, 'mcp-protocol-version': '1999-01-01' }), null, 'an unknown version')
})
