/** The plugin usage in its own app, with only its dependencies. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import type { Plans } from '../../../lib/schema/plans.js'
import type { UsageOptions } from '../../../plugins/usage/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import type { Ask } from '../../http/caller.js'

/** Small plans: `none` includes nothing, `one` is a step above it, and `much` is unlimited. */
export const smallPlans: Plans = {
  none: planOf(0, 0),
  seven: planOf(7, 1),
  eight: planOf(8, 2),
  much: planOf(-1, 3)
}

function planOf (limit: number, price: number): Plans[string] {
  return {
    price: { monthly: price },
    limits: {
      websocket: { maxConnections: limit, maxRooms: limit, maxEntitiesWatched: limit },
      fileStorage: { maxStorageMB: limit },
      ai: { llmTokensPerMonth: limit, maxCostPerMonth: limit },
      tenantConfig: { maxSecrets: limit }
    }
  }
}

export interface OpenOptions extends UsageOptions {
  /** The tier by id. */
  readonly tenants?: Readonly<Record<string, string>>
  /** Called with each line of the log, at `trace`. */
  readonly onLog?: (line: string) => void
  /** Registers routes whose requests are counted. */
  readonly routes?: (app: FastifyInstance) => void
}

export interface Opened {
  readonly app: FastifyInstance
  /** A user of a tenant. */
  readonly as: (tenant: string) => Ask
}

export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = {}, onLog, routes, report, now }: OpenOptions = {}
): Promise<Opened> {
  const { app, as } = await testApp(t, {
    engine,
    plugins: { plans: { plans: smallPlans }, tenancy: {}, usage: { report, now } },
    tenants: Object.entries(tenants).map(([id, plan]) => ({ id, plan })),
    server: { forceCloseConnections: true },
    onLog,
    routes: (app) => routes === undefined ? undefined : app.register(async (group) => routes(group))
  })
  return { app, as: (tenant) => as({ tenant_id: tenant, sub: 'ada', role: 'user' }) }
}

/** The ledger's rows of these tenants, or of all: `tenant counter period`, and the amount; also each month, as the sum of its days. */
export async function ledgerOf (app: FastifyInstance, tenants?: readonly string[]): Promise<Record<string, number>> {
  const { rows } = await sql<{ name: string, amount: number }>`with figures as (
    select tenant_id, counter, period, amount from tenantry.usage_counters
    union all select tenant_id, 'api_calls', day, api_calls from tenantry.usage_requests where api_calls > 0
    union all select tenant_id, 'bandwidth_bytes', day, bandwidth_bytes from tenantry.usage_requests where bandwidth_bytes > 0
  ) select tenant_id || ' ' || counter || ' ' || p.period as name, sum(amount)::float8 as amount
    from figures cross join lateral (select period union select left(period, 7) where period <> 'total') p (period)
    where ${tenants === undefined} or tenant_id = any (${tenants ?? []}::text[]) group by 1 order by 1`.execute(app.db)
  return Object.fromEntries(rows.map(({ name, amount }) => [name, amount]))
}

/** An instance whose last heartbeat was this many seconds ago. */
export async function instanceSilentFor (app: FastifyInstance, seconds: number): Promise<string> {
  const { rows: [row] } = await sql<
    { id: string }
  >`insert into tenantry.usage_instances (id, seen_at, last_batch) values (gen_random_uuid(), clock_timestamp() - make_interval(secs => ${seconds}), 1) returning id`
    .execute(app.db)
  return String(row?.id)
}

/** The number of resolved promises; each of the others must reject with this code. */
export async function admitted (t: Test, attempts: readonly Promise<unknown>[], code = 'TENANTRY_PLAN_LIMIT'): Promise<number> {
  const results = await Promise.allSettled(attempts)
  const refusals = results.flatMap((result) => result.status === 'rejected' ? [result.reason] : [])
  t.ok(refusals.every((error) => error.code === code), `every rejection is ${code}`)
  return results.length - refusals.length
}
