/**
 * Receipts of webhook deliveries: each delivery is handled once, over all servers. The process that handles one holds its
 * receipt and renews it; if the process ends, another one takes over.
 */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import { failure } from '../../lib/errors.js'
import { sweepHourly } from '../../lib/plugin/sweep.js'
import { platformRef, type Owner } from '../../lib/identity/tenant-ref.js'

const heldFor = 60_000 // ms that a delivery stays with a process of which nothing is heard
const renewEvery = 20_000 // ms
const keptFor = 2_592_000_000 // ms, 30 days: services send a delivery again for a few days
const looks = [50, 100, 200, 400, 800, 1600, 2000] // ms between looks at a delivery that is being handled elsewhere
const maxWaiting = 100 // requests of this process that wait for a delivery at a time
const retryAfter = { 'retry-after': '5' }

/** What tells one delivery from all others; the empty tenant is the platform. */
export interface Delivered {
  readonly tenant: Owner
  /** That of the route, with its parameters. */
  readonly path: string
  readonly id: string
}

export interface Receipts {
  /**
   * Runs the work unless the delivery was handled before: then it resolves with undefined. Where it is being handled at
   * this moment it waits for the end of that, and rejects with `stateConflict` after some seconds. A work that rejects leaves the
   * delivery to the next request that brings it. `tenantUnknown`
   */
  once<T>(delivery: Delivered, work: () => Promise<T>): Promise<T | undefined>
}

export interface ReceiptsParts {
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
  readonly log: Pick<FastifyBaseLogger, 'warn'>
}

const made = new WeakMap<Engine, Receipts>()

/** The receipts of the app's database. Old ones are removed until the app closes. */
export function receiptsOf (app: FastifyInstance): Receipts {
  const { engine, db, log } = app
  const known = made.get(engine)
  if (known !== undefined) return known
  const receipts = createReceipts({ dbFor: (tenant) => tenant === platformRef ? db : engine.kyselyFor(tenant), now: Date.now, log })
  made.set(engine, receipts)
  sweepHourly(app, 'old receipts of webhooks', () => sweepReceipts(db, Date.now()))
  return receipts
}

/** Removes those of more than 30 days ago. */
export async function sweepReceipts (db: Kysely<SystemTables>, now: number): Promise<void> {
  await sweep(db, 'tenantry.webhook_receipts.sweep', [removal('tenantry.webhook_receipts', sql`received_at < ${new Date(now - keptFor)}`)])
}

export function createReceipts ({ dbFor, now, log }: ReceiptsParts): Receipts {
  let waiting = 0

  /** Whether the holder has it now, it was handled, or another holder has it; null where the tenant is not there. */
  async function take ({ tenant, path, id }: Delivered, holder: string): Promise<'taken' | 'handled' | 'held' | null> {
    const at = new Date(now())
    // What was handled stays as it is. A tenant that is being deleted gets none, which would outlive it.
    const { rows: [row] } = await sql<{ taken: boolean | null, handled: boolean | null, present: boolean }>`with live as materialized (
        select 1 from tenantry.tenants where id = ${tenant} and status <> 'deleting' for share
      ), taken as (
        insert into tenantry.webhook_receipts as r (tenant_id, path, id, holder, held_until, received_at)
        select ${tenant}, ${path}, ${id}, ${holder}::uuid, ${new Date(
      at.getTime() + heldFor
    )}::timestamptz, ${at}::timestamptz where ${tenant} = '' or exists (select from live)
        on conflict (tenant_id, path, id) do update set holder = excluded.holder, held_until = excluded.held_until, received_at = excluded.received_at where r.held_until <= ${at}
        returning true as taken
      )
      select (select taken from taken) as taken,
        (select held_until is null from tenantry.webhook_receipts where tenant_id = ${tenant} and path = ${path} and id = ${id}) as handled,
        ${tenant} = '' or exists (select from live) as present`.execute(dbFor(tenant))
    if (row?.present !== true) return null
    return row.taken === true ? 'taken' : row.handled === true ? 'handled' : 'held'
  }

  async function hold (delivery: Delivered, holder: string): Promise<'taken' | 'handled'> {
    for (const pause of [...looks, null]) {
      const state = await take(delivery, holder)
      if (state === null) throw failure('tenantUnknown')
      if (state !== 'held') return state
      if (pause === null || waiting >= maxWaiting) break
      waiting++
      try {
        await wait(pause)
      } finally {
        waiting--
      }
    }
    // The sender tries again, and gets the result then.
    throw failure('stateConflict', { message: 'The delivery is being handled: send it again later', headers: retryAfter })
  }

  return {
    async once (delivery, work) {
      const { tenant } = delivery
      const holder = randomUUID()
      if (await hold(delivery, holder) === 'handled') return undefined
      const change = async (set: { held_until: Date | null }) => await own(dbFor(tenant), delivery, holder).set(set).execute()
      const renewal = setInterval(() => {
        change({ held_until: new Date(now() + heldFor) }).catch((err: unknown) =>
          log.warn({ err, tenant }, 'a webhook takes long, and could not be held for longer')
        )
      }, renewEvery).unref()
      try {
        const result = await work()
        clearInterval(renewal)
        // What was done stays done, though this fails: the delivery comes again, at worst.
        await change({ held_until: null }).catch((err: unknown) =>
          log.warn({ err, tenant }, 'a webhook was handled, and that could not be noted')
        )
        return result
      } catch (error) {
        clearInterval(renewal)
        await dbFor(tenant).deleteFrom('tenantry.webhook_receipts').where('tenant_id', '=', tenant).where('path', '=', delivery.path).where(
          'id',
          '=',
          delivery.id
        )
          .where('holder', '=', holder).execute().catch((err: unknown) =>
            log.warn({ err, tenant }, 'a webhook failed, and stays held for a minute')
          )
        throw error
      }
    }
  }
}

function own (db: Kysely<SystemTables>, { tenant, path, id }: Delivered, holder: string) {
  return db.updateTable('tenantry.webhook_receipts').where('tenant_id', '=', tenant).where('path', '=', path).where('id', '=', id).where(
    'holder',
    '=',
    holder
  ).where('held_until', 'is not', null)
}
