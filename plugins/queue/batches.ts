/**
 * Combines writes of jobs that arrive during others: a flood costs the database a few statements and commits, and a single job does not
 * wait. Tenants take turns in the next write, and one tenant's jobs block no other's: items that fail with the rest are written again
 * separately, beside the others.
 */
import { byTenant } from '../../lib/concurrency/by-tenant.js'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import { databaseBusy, isOutage } from '../../lib/database/failures.js'
import { isFailure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { NewJob, Outcome } from './insert.js'

const maxJobs = 100 // of one write
const maxBytes = 1_048_576 // of one write; a single job may have more
const maxUnderWay = 2 // concurrent writes of several tenants
const maxWaitingBytes = 64 * 1_048_576 // of all tenants; the first job of a tenant may always wait
const maxWaitingBytesOfTenant = 16 * 1_048_576
const maxWaitMs = 5000

/** A job, and its bytes in memory until it is written. */
export interface Item {
  readonly job: NewJob
  readonly bytes: number
}

/**
 * Writes all items, or none if it rejects. Resolves with the outcome of each, in their order. With `tenant` all items belong to that
 * tenant, and the write waits in its turn for a connection. Without it the write does not wait.
 */
export type Write<Item> = (items: readonly Item[], tenant: Owner | undefined) => Promise<readonly Outcome[]>

export type Batches<Of extends Item> = ReturnType<typeof createBatches<Of>>

interface Waiting<Of extends Item> {
  readonly item: Of
  readonly resolve: (outcome: Outcome) => void
  readonly reject: (error: unknown) => void
  timer?: NodeJS.Timeout
}

export function createBatches<Of extends Item> (write: Write<Of>) {
  /** By tenant, in the order of their turns. */
  const waiting = new Map<Owner, Set<Waiting<Of>>>()
  const bytesOf = new KeyCounts<Owner>()
  /** Tenants whose jobs are written again separately: their later jobs wait for that. */
  const separate = new Set<string>()
  let underWay = 0
  let scheduled = false

  function schedule (): void {
    if (scheduled || underWay >= maxUnderWay || waiting.size === 0) return
    scheduled = true
    // Items of the same turn of the event loop are included.
    setImmediate(() => {
      scheduled = false
      const entries = next()
      if (entries.length === 0) return
      underWay++
      writeTogether(entries).then(() => {
        underWay--
        schedule()
      }, () => {})
      schedule()
    })
  }

  function next (): Array<Waiting<Of>> {
    const picked: Array<Waiting<Of>> = []
    let bytes = 0
    for (const [tenant, entries] of waiting) {
      const [entry] = entries
      if (entry === undefined || separate.has(tenant)) continue
      bytes += entry.item.bytes
      if (picked.length > 0 && bytes > maxBytes) break
      leave(entry)
      // Its next turn, in this round or another, comes after those of all others.
      if (entries.size > 0 && waiting.delete(tenant)) waiting.set(tenant, entries)
      if (picked.push(entry) === maxJobs) break
    }
    return picked
  }

  function enter (entry: Waiting<Of>): void {
    const { job: { tenant }, bytes } = entry.item
    const own = bytesOf.of(tenant)
    if (own > 0 && (own + bytes > maxWaitingBytesOfTenant || bytesOf.total + bytes > maxWaitingBytes)) return entry.reject(databaseBusy())
    const entries = waiting.get(tenant)
    if (entries === undefined) waiting.set(tenant, new Set([entry]))
    else entries.add(entry)
    bytesOf.add(tenant, bytes)
    entry.timer = setTimeout(() => {
      leave(entry)
      entry.reject(databaseBusy())
    }, maxWaitMs)
    schedule()
  }

  function leave (entry: Waiting<Of>): void {
    const { job: { tenant }, bytes } = entry.item
    clearTimeout(entry.timer)
    const entries = waiting.get(tenant)
    entries?.delete(entry)
    if (entries?.size === 0) waiting.delete(tenant)
    bytesOf.add(tenant, -bytes)
  }

  /** Never rejects. */
  async function writeTogether (entries: ReadonlyArray<Waiting<Of>>): Promise<void> {
    try {
      const outcomes = await write(entries.map(({ item }) => item), undefined)
      writeSeparately(entries.filter((_, index) => outcomes[index] === 'held'))
      for (const [index, { resolve }] of entries.entries()) if (outcomes[index] !== 'held') resolve(outcomes[index] ?? 'unknown')
    } catch (error) {
      // Each item would meet an outage, but a deadlock or a slow statement may concern only one of them.
      if (isFailure(error, 'databaseUnavailable')) { for (const { reject } of entries) reject(error) } else writeSeparately(entries)
    }
  }

  function writeSeparately (entries: ReadonlyArray<Waiting<Of>>): void {
    for (const [tenant, own] of byTenant(entries, ({ item }) => item.job.tenant)) {
      separate.add(tenant)
      writeOwn(own, tenant).then(() => {
        separate.delete(tenant)
        schedule()
      }, () => {})
    }
  }

  /** Never rejects. */
  async function writeOwn (entries: ReadonlyArray<Waiting<Of>>, tenant: Owner): Promise<void> {
    try {
      const outcomes = await write(entries.map(({ item }) => item), tenant)
      for (const [index, { resolve }] of entries.entries()) resolve(outcomes[index] ?? 'unknown')
    } catch (error) {
      if (entries.length === 1 || isOutage(error)) {
        for (const { reject } of entries) reject(error)
      } else {
        for (const entry of entries) await writeOwn([entry], tenant)
      }
    }
  }

  return {
    /** Resolves when the item is written. Rejects with `databaseBusy` if that would take too long. */
    add: (item: Of): Promise<Outcome> => new Promise((resolve, reject) => enter({ item, resolve, reject })),
    /** The same in a separate write, for an item that may wait for another transaction. */
    alone: (item: Of): Promise<Outcome> =>
      new Promise((resolve, reject) => {
        writeOwn([{ item, resolve, reject }], item.job.tenant).catch(reject)
      })
  }
}
