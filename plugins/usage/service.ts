/** `app.usage`: the only source of usage figures. */
import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Plans } from '../../lib/plans/plans.js'
import type { Tenant, Tenants } from '../tenancy/index.js'
import { add, createCounts } from './counts.js'
import { createGauges } from './gauges.js'
import { createLedger } from './ledger.js'
import { checkAmount, type Counted, type Counter, type Gauge, type Reserved } from './metrics.js'
import type { Notices } from './notices.js'
import { dayOf, daysOf, monthOf, total } from './periods.js'
import { type HistoryEntry, type Report, reportOf, type Summary } from './report.js'
import { type Amounts, createReservations, type JointReservation, type Reservation } from './reservations.js'
import { createUsageStore, type Instance, type UsageStore } from './store.js'

/** The type of `app.usage`. Amounts are whole numbers up to 2^53 - 1, which also bounds all sums; others throw a TypeError. */
export interface Usage {
  /** Adds in memory; written within a second, when the server stops, and before a figure is read. Default amount: 1. */
  record(tenant: string, counter: Counted, amount?: number): void
  /**
   * Takes an amount of 1 or more before its use, atomically over all servers. Rejects with `planLimit` if the plan has no room
   * for it beside the used and reserved amounts, and with `tenantUnknown`.
   */
  reserve(tenant: string, counter: Reserved, amount: number): Promise<Reservation>
  /** Like `reserve`, for tokens and cost together: all amounts or none. */
  reserveAll(tenant: string, amounts: Amounts): Promise<JointReservation>
  /**
   * Subtracts removed storage. Resolves when that is written or has failed; after a failure it is retried every second.
   *
   * @param within a transaction, which subtracts it when it commits. It rejects if the statement fails.
   */
  free(tenant: string, counter: 'storage_bytes', amount: number, within?: Kysely<SystemTables>): Promise<void>
  /** Opens one resource, counted over all servers. Rejects with `planLimit` if the plan has no room for it, and with `tenantUnknown`. */
  take(tenant: string, gauge: Gauge): Promise<void>
  /** Closes one resource. */
  give(tenant: string, gauge: Gauge): void
  /** The current month. */
  summary(tenant: string): Promise<Summary>
  /** Each day of the month (`YYYY-MM`) up to today; none of a future month. Default: the current month. */
  history(tenant: string, month?: string): Promise<HistoryEntry[]>
  /** Rejects with `tenantUnknown`. */
  report(tenant: string): Promise<Report>
  /** The id of this server or worker, which changes with each start. */
  readonly instance: string
  /** Servers and workers with a heartbeat in the last 30 seconds, by id, at most `limit`. */
  instances(limit: number): Promise<Instance[]>
  /** Writes all amounts recorded until now. If that fails, it rejects; the amounts are kept and retried every second. */
  flush(): Promise<void>
}

export interface UsageParts {
  readonly engine: Pick<Engine, 'kysely' | 'kyselyFor' | 'text' | 'transaction'>
  readonly tenants: Pick<Tenants, 'get'>
  readonly plans: Plans
  /** Called with refusals. Default: they are not reported. */
  readonly notices?: Pick<Notices, 'reached'>
  readonly log: FastifyBaseLogger
  /** The clock of days and months, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
  /** Default: that of the engine. */
  readonly store?: UsageStore | undefined
}

/** The service, and the methods for its plugin. */
export interface UsageService extends Usage {
  /** Counts a request of the tenant, and the bytes of its bodies. */
  request(tenant: Tenant, bytes: number): void
  /** The number of waiting entries, each of a tenant and a day. */
  readonly waiting: number
  start(): void
  close(): Promise<void>
}

const unnoticed: Pick<Notices, 'reached'> = { reached: () => {} }

export function createUsage (
  { engine, tenants, plans, notices = unnoticed, log, now = Date.now, store = createUsageStore(engine) }: UsageParts
): UsageService {
  const instance = randomUUID()
  const counts = createCounts(now)
  const registered = (): void | Promise<void> => ledger.registered()
  const gauges = createGauges({ store, instance, plans, registered, notices })
  const reservations = createReservations({ store, instance, plans, registered, notices, now, log })
  const ledger = createLedger({ store, instance, counts, gauges, settleLate: reservations.settleLate, log })

  /** Gets the entry of a tenant by its id alone. */
  function countsOf (tenant: Owner) {
    if (counts.has(tenant)) return counts.of(tenant, null)
    const found = tenants.get(tenant)
    if (found === null) return undefined
    if (!(found instanceof Promise)) return counts.of(tenant, found.createdAt.getTime())
    const entry = counts.of(tenant, null)
    found.then((there) => {
      if (entry !== undefined && there !== null) entry.since ??= there.createdAt.getTime()
    }).catch(() => {})
    return entry
  }

  return {
    record (tenant: Owner, counter, amount = 1) {
      checkAmount(amount, 0)
      const entry = countsOf(tenant)
      if (entry === undefined) return
      if (counter === 'api_calls') entry.calls = add(entry.calls, amount)
      else entry.bandwidth = add(entry.bandwidth, amount)
    },
    request: counts.request,
    reserve: reservations.reserve,
    reserveAll: reservations.reserveAll,
    async free (tenant: Owner, _counter, amount, within) {
      checkAmount(amount, 0)
      if (within !== undefined) return await store.free(tenant, amount, within)
      const entry = countsOf(tenant)
      if (entry === undefined) return
      entry.freed = add(entry.freed, amount)
      // Nothing is lost: the next beat tries again and logs the failure.
      await ledger.flush().catch(() => {})
    },
    take: gauges.take,
    give: gauges.give,
    async summary (tenant: Owner) {
      await ledger.flush()
      const month = monthOf(dayOf(now()))
      const days = daysOf(month)
      const of = await store.amounts(tenant, ['api_calls', 'llm_tokens', 'storage_bytes', 'bandwidth_bytes'], [...days, total])
      const sumOf = (counter: Counter) => days.reduce((sum, day) => add(sum, of(counter, day)), 0)
      return {
        tenant_id: tenant,
        period: month,
        api_calls: sumOf('api_calls'),
        llm_tokens: sumOf('llm_tokens'),
        storage_bytes: of('storage_bytes', total),
        bandwidth_bytes: sumOf('bandwidth_bytes')
      }
    },
    async history (tenant: Owner, month) {
      const today = dayOf(now())
      const days = daysOf(month ?? monthOf(today), today)
      if (days.length === 0) return []
      await ledger.flush()
      const of = await store.amounts(tenant, ['api_calls', 'llm_tokens'], days)
      return days.map((date) => ({ date, api_calls: of('api_calls', date), llm_tokens: of('llm_tokens', date) }))
    },
    async report (tenant: Owner) {
      await ledger.flush()
      const standing = await store.standing(tenant, daysOf(monthOf(dayOf(now()))))
      if (standing === undefined) throw failure('tenantUnknown')
      return reportOf(tenant, plans.of(standing.plan), standing)
    },
    instance,
    instances: store.instances,
    flush: ledger.flush,
    get waiting () {
      return counts.size
    },
    start: ledger.start,
    close: ledger.close
  }
}
