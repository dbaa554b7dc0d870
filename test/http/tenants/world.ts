/** A server with two tenants, one of which attacks the other: its document, callers, and routes that a tenant saves. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, type Request } from '../caller.js'

/** A text in all of the victim's data, and nowhere else. */
export const marker = 'VICTIM-7d1e'

export type Routes = NonNullable<TestDocument['routes']>

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const

/** The platform's document: tenant tables, a shared table, a private one, and its own routes. */
export const platformDocument = {
  tables: {
    people: { tenantScoped: true, columns: { id, name: { type: 'text', notNull: true } } },
    notes: {
      tenantScoped: true,
      columns: {
        id,
        title: { type: 'text', notNull: true },
        body: { type: 'text' },
        code: { type: 'text' },
        author_id: { type: 'uuid', references: 'people.id' }
      },
      unique: [['tenant_id', 'code']]
    },
    countries: { columns: { code: { type: 'text', primaryKey: true }, name: { type: 'text' } } },
    prices: { columns: { id, amount: { type: 'integer' } } }
  },
  tenancy: { sharedTables: ['countries'], env: ['PUBLIC_URL'] },
  cache: { enabled: true, provider: 'memory' },
  routes: [
    { method: 'get', path: '/platform/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'select' }] },
    { method: 'get', path: '/platform/cached', cache: { enabled: true, ttl: 60 }, queries: [{ table: 'notes', operation: 'select' }] },
    { method: 'get', path: '/articles/:id', response: { platform: '{{params.id}}' } },
    { method: 'get', path: '/', response: { platform: true } }
  ]
} as const satisfies TestDocument

export interface World {
  readonly app: FastifyInstance
  /** Administrators of their tenants. */
  readonly attacker: Ask
  readonly victim: Ask
  /** Administrator of the platform. */
  readonly platform: Ask
  /** Sends a request without credentials, or with those of the request. */
  readonly stranger: Ask
}

export const tokenOf = (tenant: string, claims: Record<string, unknown> = { role: 'admin' }): string =>
  signToken({ sub: `someone-of-${tenant}`, tenant_id: tenant, ...claims })

/** Both tenants are on the plan `enterprise`, whose limits no attack reaches. */
export async function createWorld (t: Test, options: TestServerOptions = {}, document: TestDocument = {}): Promise<World> {
  const app = await testServer(t, { ...platformDocument, ...document }, {
    tenants: [{ id: 'attacker', plan: 'enterprise' }, { id: 'victim', plan: 'enterprise' }],
    ...options
  })
  const as = (token: string) => caller(t, app, { token })
  return {
    app,
    attacker: as(tokenOf('attacker')),
    victim: as(tokenOf('victim')),
    platform: as(signToken({ sub: 'root', role: 'admin' })),
    stranger: caller(t, app)
  }
}

/** Saves a document with these routes. Fails the test if it is rejected. */
export async function save (t: Test, ask: Ask, routes: Routes, more: Record<string, unknown> = {}): Promise<void> {
  const { status, text } = await ask('POST /tenant/config', { body: { routes, ...more } })
  if (status !== 200) t.fail(`the document was rejected: ${status} ${text.slice(0, 2000)}`)
}

/** Saves the document if it is valid. Any other response must be a 400 or a 409 with a reason. */
export async function trySave (t: Test, ask: Ask, body: unknown, label: string): Promise<boolean> {
  const { status, body: response, text } = await ask('POST /tenant/config', { body })
  const isRefusal = (status === 400 || status === 409) && typeof response['message'] === 'string'
  t.ok(status === 200 || isRefusal, `${label}: ${status}`, status === 200 || isRefusal ? {} : { text })
  return status === 200
}

/** A tenant's callers other than its administrator. */
export function userOf (t: Test, app: FastifyInstance, tenant: string, claims: Record<string, unknown> = {}, request: Request = {}): Ask {
  return caller(t, app, { token: tokenOf(tenant, claims), ...request })
}
