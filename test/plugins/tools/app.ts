/** A server with tools, and a route through which tests list and call them. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { bearer, type TokenClaims } from '../../helpers/tokens.js'

export const document: TestDocument = {
  tables: {
    notes: {
      tenantScoped: true,
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        title: { type: 'text', notNull: true },
        rank: { type: 'bigint' }
      }
    }
  },
  routes: [
    {
      path: '/notes',
      method: 'get',
      requireAuth: true,
      mcp: true,
      queries: [{ table: 'notes', operation: 'select', select: '*', order: { column: 'title' } }]
    },
    {
      path: '/notes/:id',
      method: 'get',
      requireAuth: true,
      mcp: true,
      queries: [{ table: 'notes', operation: 'select', single: true, id: '{{params.id}}' }]
    },
    {
      path: '/notes',
      method: 'post',
      requireAuth: true,
      mcp: { name: 'add_note', description: 'Adds a note.' },
      request: { body: { title: { type: 'string', required: true, maxLength: 100 }, rank: { type: 'integer' } } },
      queries: [{ table: 'notes', operation: 'insert' }]
    },
    {
      path: '/notes/:id',
      method: 'delete',
      requiredPermissions: ['notes:delete'],
      mcp: { name: 'remove_note' },
      queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }]
    },
    {
      path: '/words',
      method: 'get',
      mcp: { name: 'words' },
      request: { query: { q: { type: 'string', required: true }, tags: { type: 'array' } } },
      response: { q: '{{query.q}}', tags: '{{query.tags}}', custom: '{{headers.x-custom}}', address: '{{headers.x-forwarded-for}}' }
    },
    { path: '/hidden', method: 'get', response: {} }
  ]
}

export type Probe = (
  operation: 'list' | 'call',
  body?: object,
  headers?: Record<string, string>
) => Promise<{ status: number, body: { tools?: ProbeTool[], result?: unknown, message?: string, code?: string } }>

export interface ProbeTool {
  readonly name: string
  readonly [member: string]: unknown
}

export interface Opened {
  readonly app: FastifyInstance
  readonly as: (tenant: string, claims?: TokenClaims) => Probe
  readonly probe: (headers: Record<string, string>, address?: string) => Probe
}

export async function open (t: Test, own: TestDocument = document, options: TestServerOptions = {}): Promise<Opened> {
  const app = await testServer(t, own, {
    tenants: ['acme', 'globex'],
    ...options,
    prepare (app) {
      app.register(async (group) => {
        group.post<{ Body: { name: string, input?: unknown, maxBytes?: number, timeoutMs?: number } }>('/probe/call', {
          config: { access: 'open' }
        }, async (request) => {
          const { name, input, maxBytes, timeoutMs } = request.body
          return { result: await group.tools.call(name, input, request, { maxBytes, timeoutMs }) }
        })
        group.post('/probe/list', { config: { access: 'open' } }, async (request) => ({ tools: await group.tools.list(request) }))
      })
      options.prepare?.(app)
    }
  })
  const probe = (own: Record<string, string>, remoteAddress?: string): Probe => async (operation, body = {}, headers = {}) => {
    const response = await app.inject({
      method: 'POST',
      url: `/probe/${operation}`,
      headers: { ...own, ...headers, 'content-type': 'application/json' },
      payload: body,
      ...remoteAddress !== undefined && { remoteAddress }
    })
    return { status: response.statusCode, body: response.json() }
  }
  return { app, probe, as: (tenant, claims = {}) => probe(bearer({ sub: 'ada', role: 'user', tenant_id: tenant, ...claims })) }
}
