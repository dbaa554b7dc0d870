/** The plugin analytics in its own app, with its dependencies and a few routes. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { lifeOf, platformRef, tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import type { CountedTenant } from '../../../plugins/analytics/buffer.js'
import type { AnalyticsOptions, Figures } from '../../../plugins/analytics/index.js'
import { testApp, type TestAppOptions, type TestEngine } from '../../helpers/app.js'
import type { Ask } from '../../http/caller.js'

export const [hour, day] = [3_600_000, 86_400_000] // ms

/** The creation of the tenants of `counted`. */
export const created = new Date('2026-05-01T08:00:00.123Z')

/** The tenant of this id for the buffer and its batches; the empty text for requests without a tenant. */
export function counted (tenant: string, createdAt = created): CountedTenant {
  return tenant === '' ? platformRef : lifeOf({ id: tenantIdOf(tenant), createdAt })
}

export interface OpenOptions extends AnalyticsOptions, Pick<TestAppOptions, 'routes'> {
  readonly tenants?: readonly string[]
}

export interface Opened {
  readonly app: FastifyInstance
  /** The platform's administrator. */
  readonly admin: Ask
  /** A user of a tenant. */
  readonly as: (tenant: string) => Ask
  readonly stranger: Ask
}

/** `GET /things/:id` returns the status in `?status=` to any caller. */
export async function open (t: Test, engine: TestEngine, { tenants = [], routes, ...options }: OpenOptions = {}): Promise<Opened> {
  const { app, as, ask } = await testApp(t, {
    engine,
    plugins: { conventions: { root: true }, tenancy: {}, analytics: { enabled: true, ...options } },
    tenants,
    async routes (app) {
      app.get<{ Querystring: { status?: string } }>(
        '/things/:id',
        { config: { access: 'open' } },
        async ({ query: { status = '200' } }, reply) => reply.code(Number(status)).send({ ok: true })
      )
      app.get('/internal/probe', async () => ({ ok: true }))
      await routes?.(app)
    }
  })
  return { app, admin: as({ role: 'admin', sub: 'ops' }), as: (tenant) => as({ tenant_id: tenant, sub: 'ada' }), stranger: ask }
}

/** The response of `GET /analytics/summary`; the query may be empty. */
export async function summaryOf (ask: Ask, query = '', tenant?: string): Promise<Figures> {
  const { status, text } = await ask(`GET /analytics/summary${query}`, tenant === undefined ? {} : { tenant })
  if (status !== 200) throw new Error(`${status} ${text}`)
  return JSON.parse(text)
}

/** `GET /things/:id 3`: the routes with their counts, in order. */
export function countsOf ({ routes }: Pick<Figures, 'routes'>): string[] {
  return routes.map(({ method, route, count }) => `${method} ${route} ${count}`)
}
