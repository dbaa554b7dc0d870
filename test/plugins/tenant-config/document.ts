/** The platform's document and the tenants' routes of these tests. */
import type { InjectOptions } from 'fastify'
import type { FastifyInstance } from 'fastify'
import type { TestDocument } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'

/** Tenants' notes, colours that the platform shares, and prices that it does not. */
export const platform: TestDocument = {
  tables: {
    notes: {
      tenantScoped: true,
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        title: { type: 'text', notNull: true },
        author: { type: 'text' }
      }
    },
    colours: { columns: { name: { type: 'text', primaryKey: true } } },
    prices: { columns: { id: { type: 'text', primaryKey: true }, amount: { type: 'integer' } } }
  },
  tenancy: { sharedTables: ['colours'], env: ['GREETING'] },
  cache: { enabled: true, provider: 'memory', ttl: 60 },
  routes: [
    { path: '/status', method: 'get', response: { by: 'the platform' } },
    { path: '/items/:id', method: 'get', response: { by: 'the platform' } }
  ]
}

export const notes = {
  list: {
    path: '/notes',
    method: 'get',
    requireAuth: true,
    queries: [{ table: 'notes', operation: 'select', order: { column: 'title' } }]
  },
  add: { path: '/notes', method: 'post', requireAuth: true, queries: [{ table: 'notes', operation: 'insert' }] },
  one: {
    path: '/notes/:id',
    method: 'get',
    requireAuth: true,
    queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}', single: true }]
  }
}

export const admin = (tenant: string) => bearer({ sub: `admin of ${tenant}`, role: 'admin', tenant_id: tenant })
export const user = (tenant: string) => bearer({ sub: `user of ${tenant}`, tenant_id: tenant })

/** Saves a document as the tenant's administrator. */
export async function save (app: FastifyInstance, tenant: string, document: object, options: InjectOptions = {}) {
  return await app.inject({
    method: 'POST',
    url: '/tenant/config',
    payload: document,
    ...options,
    headers: { ...admin(tenant), ...options.headers }
  })
}

/** Sends requests as a user of the tenant. */
export async function ask (
  app: FastifyInstance,
  tenant: string,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  url: string,
  payload?: object
) {
  return await app.inject({ method, url, headers: user(tenant), ...payload !== undefined && { payload } })
}
