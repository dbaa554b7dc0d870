/** The document, tenants and callers for tests of idempotency keys. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import type { TestDocument } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, type Reply } from '../../http/caller.js'

export const document: TestDocument = {
  rbac: { enabled: true },
  tables: {
    notes: {
      tenantScoped: true,
      columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, text: { type: 'text', notNull: true } }
    }
  },
  routes: [
    { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] },
    {
      method: 'post',
      path: '/several',
      queries: [{ table: 'notes', operation: 'insert', alias: 'a' }, { table: 'notes', operation: 'insert', alias: 'b' }]
    },
    {
      method: 'post',
      path: '/mapped',
      requiredPermissions: ['notes:write'],
      queries: [{ table: 'notes', operation: 'insert', alias: 'note' }],
      response: { made: '{{results.note.id}}', said: '{{body.text}}' }
    },
    {
      method: 'post',
      path: '/called',
      queries: [{ table: 'notes', operation: 'insert' }],
      integrations: [{ type: 'nowhere', action: 'call', params: {} }]
    },
    { method: 'get', path: '/notes', queries: [{ table: 'notes', operation: 'select' }] }
  ],
  customIntegrations: [{ name: 'nowhere', baseUrl: 'http://127.0.0.1:9', actions: { call: { method: 'post', path: '/' } } }]
}

export const tenants = [{ id: 'acme', plan: 'enterprise' }, { id: 'globex', plan: 'enterprise' }]

export function tokenOf (tenant: string, sub = 'ada'): string {
  return signToken({ sub, role: 'admin', tenant_id: tenant })
}

/** The request header. */
export function under (key: string): { headers: Record<string, string> } {
  return { headers: { 'idempotency-key': key } }
}

export function isReplay ({ headers }: Reply): boolean {
  return headers['idempotency-replayed'] === 'true'
}

export async function notesOf (t: Test, app: FastifyInstance, tenant = 'acme'): Promise<number> {
  return Number(Object((await caller(t, app, { token: tokenOf(tenant) })('GET /notes')).body['pagination']).total)
}

/** Ages the keys. */
export async function pass (app: FastifyInstance, seconds: number): Promise<void> {
  await sql`update tenantry.idempotency_keys set leased_until = leased_until - make_interval(secs => ${seconds}), expires_at = expires_at - make_interval(secs => ${seconds})`
    .execute(app.db)
}

export async function keysOf (app: FastifyInstance): Promise<{ tenant_id: string, state: string, encrypted: boolean, content: Buffer }[]> {
  return await app.db.selectFrom('tenantry.idempotency_keys').select(['tenant_id', 'state', 'encrypted', 'content']).orderBy('tenant_id')
    .execute()
}
