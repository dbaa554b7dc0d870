/** The plugin analytics in its own app, with its dependencies and a few routes. */
import type { Test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import Fastify, { type FastifyInstance } from 'fastify'
import analytics, { type AnalyticsOptions, type Figures } from '../../../plugins/analytics/index.js'
import auth from '../../../plugins/auth/index.js'
import conventions from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import { scanLog } from '../../helpers/log-scan.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'

export const [hour, day] = [3_600_000, 86_400_000] // ms

/** A clock that the test sets. */
export function fakeClock (start = Date.parse('2026-06-01T12:30:00Z')) {
  let time = start
  return {
    now: () => time,
    forward (ms: number) {
      time += ms
    },
    set (date: string) {
      time = Date.parse(date)
    }
  }
}

export interface OpenOptions extends AnalyticsOptions {
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
export async function open (
  t: Test,
  engine: Pick<EngineOptions, 'provider' | 'postgres' | 'embedded'>,
  { tenants = [], ...options }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  await app.register(conventions, { root: true })
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(analytics, options)
  app.get<{ Querystring: { status?: string } }>(
    '/things/:id',
    { config: { access: 'open' } },
    async ({ query: { status = '200' } }, reply) => reply.code(Number(status)).send({ ok: true })
  )
  app.get('/internal/probe', async () => ({ ok: true }))
  for (const id of tenants) await app.tenants.create({ id, name: id })
  return {
    app,
    admin: caller(t, app, { token: signToken({ role: 'admin', sub: 'ops' }) }),
    as: (tenant) => caller(t, app, { token: signToken({ tenant_id: tenant, sub: 'ada' }) }),
    stranger: caller(t, app)
  }
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
