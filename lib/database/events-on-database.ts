/** `app.events` on a database: a change and its notice share one transaction (PostgreSQL, "NOTIFY"). */
import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { ClientConfig } from 'pg'
import type { Owner } from '../identity/tenant-ref.js'
import type { EngineLog } from './engine.js'
import { type Change, decodeNotice, encodeNotice, isNoticed, type Notice, type Topic, topics } from './events.js'
import { createNoticeConnection } from './notice-connection.js'
import type { SystemTables, SystemTransaction } from './system-tables.js'

interface EventsOptions {
  /** The transaction of a change. */
  readonly writer: (change: Change) => Kysely<SystemTables>
  /** The options of the connection for notices; undefined if it is impossible. */
  readonly notices: ClientConfig | undefined
  /** Notifies at once, on the pool's connections. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>
  readonly log: EngineLog
}

const channel = 'tenantry' // unique per database, because the schema of that name is
const maxUnsure = 1000

export function createEvents ({ writer, notices, notify, log }: EventsOptions) {
  const server = randomBytes(8).toString('hex')
  const listeners = createEventListeners(log)
  /** Own changes whose commit got no response: they may still be committed, and noticed. */
  const unsure = new Set<number>()
  let changes = 0

  const connection = notices === undefined
    ? null
    : createNoticeConnection({
      client: notices,
      channel,
      ownChannel: `${channel}_${server}`,
      notify,
      onPayload: hear,
      onGap: listeners.notifyGap,
      log
    })

  function hear (payload: string): void {
    const notice = decodeNotice(payload)
    // This server handled its own changes when they were committed.
    if (notice === null || (notice.from === server && !unsure.delete(notice.number))) return
    listeners.notify(notice)
  }

  async function change<T> ({ topic, tenant }: Notice, work: (transaction: SystemTransaction) => Promise<T>): Promise<T> {
    if (!isNoticed(tenant)) throw new Error('not a valid tenant id')
    const number = ++changes
    let done = false
    try {
      const result = await writer({ topic, tenant }).transaction().execute(async (transaction) => {
        const result = await work(transaction)
        if (notices !== undefined) {
          await sql`select pg_notify(${channel}, ${encodeNotice({ topic, tenant, from: server, number })})`.execute(transaction)
        }
        done = true
        return result
      })
      listeners.notify({ topic, tenant })
      return result
    } catch (error) {
      if (done) {
        remember(number)
        listeners.notify({ topic, tenant })
      }
      throw error
    }
  }

  function remember (number: number): void {
    const [oldest] = unsure
    if (unsure.size >= maxUnsure && oldest !== undefined) unsure.delete(oldest)
    unsure.add(number)
  }

  return {
    change,
    on: listeners.on,
    onGap: listeners.onGap,
    listen: async () => connection?.open(),
    close: async () => connection?.close()
  }
}

function createEventListeners (log: EngineLog) {
  const changes = Object.fromEntries(topics.map((topic) => [topic, new Set()])) as Record<Topic, Set<Listener<Owner>>>
  const gaps = new Set<Listener<void>>()

  const failed = (err: unknown): void => log.warn({ err }, 'a listener for changes failed')

  function call<Value> ({ listener }: Listener<Value>, value: Value): void {
    try {
      const result: unknown = listener(value)
      // The type forbids async functions, but the compiler accepts them.
      if (result instanceof Promise) result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  return {
    on: (topic: Topic, listener: (tenant: Owner) => void) => add(changes[topic], listener),
    onGap: (listener: () => void) => add(gaps, listener),
    notify ({ topic, tenant }: Change): void {
      for (const entry of changes[topic]) call(entry, tenant)
    },
    /** Reports that notices may have been missed. */
    notifyGap (): void {
      for (const entry of gaps) call(entry, undefined)
    }
  }
}

/** A separate entry for each call, so that a function that is added twice is removed twice. */
interface Listener<Value> {
  readonly listener: (value: Value) => void
}

function add<Value> (entries: Set<Listener<Value>>, listener: (value: Value) => void): () => void {
  const entry = { listener }
  entries.add(entry)
  return () => {
    entries.delete(entry)
  }
}
