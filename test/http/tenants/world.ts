/** A server with two tenants, of which one attacks the other: its document, its callers, and routes that a tenant saves. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { testServer, type TestDocument, type TestServerOptions } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, type Ask, type Request } from '../caller.js'

/** Stands in whatever the victim has, and in nothing else. */
export const marker = 'VICTIM-7d1e'

export type Routes = NonNullable<TestDocument['routes']>

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const

/** The platform's document: tables of tenants, one that is shared and one that is not, and routes of its own. */
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
  /** Asks with nothing, or with what the request says. */
  readonly stranger: Ask
}

export const tokenOf = (tenant: string, claims: Record<string, unknown> = { role: 'admin' }): string =>
  signToken({ sub: `someone-of-${tenant}`, tenant_id: tenant, ...claims })

/** Both tenants are on the plan `enterprise`, whose limits no attack meets. */
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

/** Saves a document with these routes; the test fails where it is refused. */
export async function save (t: Test, ask: Ask, routes: Routes, more: Record<string, unknown> = {}): Promise<void> {
  const { status, text } = await ask('POST /tenant/config', { body: { routes, ...more } })
  if (status !== 200) t.fail(`the document was refused: ${status} ${text.slice(0, 2000)}`)
}

/** Saves it where it is accepted; nothing but a 400 or a 409 with a reason is another answer. */
export async function trySave (t: Test, ask: Ask, body: unknown, what: string): Promise<boolean> {
  const { status, body: answer, text } = await ask('POST /tenant/config', { body })
  const isRefusal = (status === 400 || status === 409) && typeof answer['message'] === 'string'
  t.ok(status === 200 || isRefusal, `${what}: ${status}`, status === 200 || isRefusal ? {} : { text })
  return status === 200
}

/** The callers of a tenant other than its administrator. */
export function userOf (t: Test, app: FastifyInstance, tenant: string, claims: Record<string, unknown> = {}, request: Request = {}): Ask {
  return caller(t, app, { token: tokenOf(tenant, claims), ...request })
}
