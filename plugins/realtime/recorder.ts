/**
 * Keeps the tables recorded that watches of this process need. The first watch of a table creates an entry, which triggers check.
 * The watch then waits for transactions that may have written rows of its tenant without seeing the entry. The entry outlives the last
 * watch, so that a client that reconnects finds its changes.
 */
import type { FastifyBaseLogger } from 'fastify'
import { createPoller } from '../../lib/database/poller.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { RecordedStore, RecordedTable, TenantTable } from './recorded-store.js'

const renewalMs = 300_000 // ms between renewals of the entries
const waitMs = 20 // ms between checks for transactions that still write
const maxWaitMs = 30_000 // ms to wait for those transactions
const maxEntries = 1000 // of one statement

export interface RecorderParts {
  readonly store: RecordedStore
  readonly schema: string
  /** How long an entry outlives the last watch. */
  readonly retentionSeconds: number
  /** Called if the table was not recorded for some time, so that changes may be missed. */
  readonly lost: (table: TenantTable) => void
  readonly log: FastifyBaseLogger
}

/** Keeps a table recorded until `end` is called, and for the retention time after it. */
export interface Recording {
  /** All changes after this position are recorded. */
  readonly start: number
  end(): void
}

export type Recorder = ReturnType<typeof createRecorder>

interface Entry extends TenantTable {
  /** Recordings of the entry that have not ended. */
  users: number
  start: number | null
  /** The tenant has changed since: it may be a later one with the same id, which the database has no entry for. */
  isUnsure: boolean
  /** Transactions that were writing when the entry was created; null until then. */
  writers: ReadonlySet<string> | null
  since: number
  waiting: { readonly resolve: (recording: Recording) => void, readonly reject: (error: unknown) => void }[]
}

export function createRecorder ({ store, schema, retentionSeconds, lost, log }: RecorderParts) {
  const entries = new Map<string, Entry>()
  /** Entries without a start. */
  const pending = new Set<Entry>()
  const ending = new AbortController()
  // An entry survives two failed renewals.
  const seconds = retentionSeconds + 3 * renewalMs / 1000
  let timer: NodeJS.Timeout | undefined
  const poller = createPoller({
    poll,
    signal: ending.signal,
    log,
    messages: {
      failed: 'watches cannot begin: the database cannot be reached, is too busy, or is not migrated. Retrying',
      again: 'watches begin again'
    }
  })

  async function poll (): Promise<number> {
    if (pending.size === 0) return Infinity
    const batch = [...pending]
    try {
      for (const part of partsOf(batch.filter(({ writers }) => writers === null))) resolveAll(await store.enter(part, seconds))
      const open = batch.filter((entry) => pending.has(entry))
      const ready = open.length === 0 ? [] : await withoutWriters(open)
      for (const part of partsOf(ready)) resolveAll(await store.settle(part))
      // The entry was deleted with its tenant.
      for (const entry of ready) fail(entry, failure('databaseBusy'))
    } catch (error) {
      for (const entry of batch) fail(entry, failure('databaseUnavailable', { cause: error }))
      throw error
    }
    return pending.size === 0 ? Infinity : waitMs
  }

  /** The entries whose earlier transactions have all ended. */
  async function withoutWriters (open: readonly Entry[]): Promise<Entry[]> {
    const now = new Map<string, string[]>()
    for (const { tenant, table, writer } of await store.writers(schema, open)) {
      const key = tenant === null ? table : keyOf({ tenant, table })
      const writers = now.get(key)
      if (writers === undefined) now.set(key, [writer])
      else writers.push(writer)
    }
    const ready: Entry[] = []
    for (const entry of open) {
      const current = [...now.get(entry.table) ?? [], ...now.get(keyOf(entry)) ?? []]
      const { writers } = entry
      const left = writers === null ? current : current.filter((writer) => writers.has(writer))
      entry.writers = new Set(left)
      if (left.length === 0) ready.push(entry)
      else if (performance.now() - entry.since > maxWaitMs) fail(entry, failure('databaseBusy'))
    }
    return ready
  }

  function resolveAll (recorded: readonly RecordedTable[]): void {
    for (const { tenant, table, start } of recorded) {
      const entry = entries.get(keyOf({ tenant, table }))
      if (entry === undefined || start === null || !pending.delete(entry)) continue
      // Open watches began with an entry that is gone.
      if (entry.start !== null && entry.start !== start) lost(entry)
      entry.start = start
      entry.isUnsure = false
      for (const { resolve } of entry.waiting.splice(0)) resolve(recordingOf(entry, start))
    }
  }

  function fail (entry: Entry, error: unknown): void {
    if (!pending.delete(entry)) return
    if (entry.start === null) entries.delete(keyOf(entry))
    for (const { reject } of entry.waiting.splice(0)) reject(error)
  }

  /** Renews the entries now. Also runs every five minutes. */
  async function renew (): Promise<void> {
    for (const [key, { users, start }] of entries) if (users === 0 && start !== null) entries.delete(key)
    for (const part of partsOf([...entries.values()].filter(({ start }) => start !== null))) {
      const starts = new Map((await store.enter(part, seconds)).map((table) => [keyOf(table), table.start]))
      for (const entry of part) {
        const key = keyOf(entry)
        if (starts.get(key) === entry.start || entries.get(key) !== entry) continue
        entries.delete(key)
        lost(entry)
      }
    }
  }

  return {
    start (): void {
      poller.start()
      timer = setInterval(() => {
        renew().catch((err: unknown) => log.warn({ err }, 'the entries of watched tables could not be renewed: retrying'))
      }, renewalMs).unref()
    },
    /** Resolves when every later commit is recorded. */
    async record ({ tenant, table }: TenantTable): Promise<Recording> {
      const key = keyOf({ tenant, table })
      const known = entries.get(key)
      if (known !== undefined && known.start !== null && !known.isUnsure) return recordingOf(known, known.start)
      const entry = known ?? { tenant, table, users: 0, start: null, isUnsure: false, writers: null, since: 0, waiting: [] }
      return await new Promise((resolve, reject) => {
        entry.waiting.push({ resolve, reject })
        if (pending.has(entry)) return
        entry.writers = null
        entry.since = performance.now()
        entries.set(key, entry)
        pending.add(entry)
        poller.wake()
      })
    },
    renew,
    /** Forgets all entries: the database may lack them. */
    forget (): void {
      for (const [key, entry] of entries) if (!pending.has(entry)) entries.delete(key)
    },
    /** The tenant has changed: its entries are read again when they are used next. */
    recheck (tenant: Owner): void {
      for (const entry of entries.values()) if (entry.tenant === tenant) entry.isUnsure = true
    },
    /** Any tenant may have changed. */
    recheckAll (): void {
      for (const entry of entries.values()) entry.isUnsure = true
    },
    async stop (): Promise<void> {
      clearInterval(timer)
      ending.abort()
      for (const entry of [...pending]) fail(entry, failure('databaseUnavailable'))
      await poller.ended()
    }
  }
}

function recordingOf (entry: Entry, start: number): Recording {
  let isOver = false
  entry.users++
  return {
    start,
    end () {
      if (!isOver) entry.users--
      isOver = true
    }
  }
}

function * partsOf (entries: readonly Entry[]): Iterable<readonly Entry[]> {
  for (let index = 0; index < entries.length; index += maxEntries) yield entries.slice(index, index + maxEntries)
}

function keyOf ({ tenant, table }: TenantTable): string {
  return `${tenant}\u0000${table}`
}
