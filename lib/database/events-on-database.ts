/** `app.events` on a database: a change and its notice share one transaction (PostgreSQL, "NOTIFY"). */
import type { ClientConfig } from 'pg'
import type { EngineLog } from './engine.js'
import type { Change, Events, Notice } from './events.js'
import type { SystemTables } from './system-tables.js'
import { randomBytes } from 'node:crypto'
import { sql, type Kysely, type Transaction } from 'kysely'
import { createEventListeners } from './event-listeners.js'
import { decodeNotice, encodeNotice, isNoticed } from './notice.js'
import { createNoticeConnection } from './notice-connection.js'

export interface EventsOptions {
  /** The transaction of a change. */
  readonly writer: (change: Change) => Kysely<SystemTables>
  /** The options of the connection for notices; undefined if it is impossible. */
  readonly notices: ClientConfig | undefined
  /** Notifies at once, on the pool's connections. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>
  readonly log: EngineLog | undefined
}

export interface DatabaseEvents extends Events {
  listen(): Promise<void>
  close(): Promise<void>
}

const channel = 'tenantry' // unique per database, because the schema of that name is
const maxUnsure = 1000
const times = { beatMs: 250, responseMs: 750, probeMs: 30_000 } // a connection that falls silent is noticed within a second

export function createEvents ({ writer, notices, notify, log }: EventsOptions): DatabaseEvents {
  const server = randomBytes(8).toString('hex')
  const listeners = createEventListeners((err, message) => log?.warn({ err }, message))
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
      times,
      log
    })

  function hear (payload: string): void {
    const notice = decodeNotice(payload)
    // This server handled its own changes when they were committed.
    if (notice === null || (notice.from === server && !unsure.delete(notice.number))) return
    listeners.notify(notice)
  }

  async function change<T> ({ topic, tenant }: Notice, work: (transaction: Transaction<SystemTables>) => Promise<T>): Promise<T> {
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
