/** Access to the connections of the pool: turns, waiting times, and the end of waiting while the database hangs. */
import { Socket } from 'node:net'
import pg, { type PoolClient } from 'pg'
import { createYielder } from '../concurrency/event-loop-yielder.js'
import { type Account, FairSemaphore } from '../concurrency/fair-semaphore.js'
import { settlesWithin } from '../concurrency/with-timeout.js'
import type { TenantRef } from '../identity/tenant-ref.js'
import type { Connections } from './connections.js'
import type { EngineLog, SessionOptions } from './engine.js'
import { callerLeft, databaseBusy, databaseUnavailable, unreachable } from './failures.js'
import { watchHangs } from './hang-watch.js'
import { ResultReader } from './result-stream.js'
import { watchSilence } from './silent-connections.js'
import type { Exchange } from './wire-query.js'

const mostStatements = 3 // that are sent at a time
const connectionsOfShort = 3 // with short statements at a time, or more if round trips are long
const shortPerMs = 10 // short statements that a process sends in a millisecond, at most
const longMs = 20 // ms; a connection that is in use for longer does not count as one with short statements

type Shared = (client: PoolClient) => void
type PoolAccount = Account<TenantRef, Shared>
type Acquired = (error: unknown, client: PoolClient | null) => void

/** A statement with a place, but without a connection. */
interface Waiter {
  readonly account: PoolAccount
  readonly done: Acquired
  readonly timer: NodeJS.Timeout
}

/** A connection with its statements. */
interface Use {
  readonly account: PoolAccount
  readonly began: number
  /** It has a transaction, a statement that is not short, or a late one. */
  isLong: boolean
  /** Those that have not ended. */
  statements: number
  /** The last one, while they are collected. If it stayed here, V8 would keep it, and its request, long after its end. */
  last: Exchange | null
}

export type PoolAccess = ReturnType<typeof createPoolAccess>

export function createPoolAccess ({ pool, settings, notices, processOf, outdated, max, acquireTimeoutMs }: Connections, log: EngineLog) {
  const gate = new FairSemaphore<TenantRef, Shared>(max, acquireTimeoutMs)
  const busy = new Map<PoolClient, Use>()
  const patient = new Set<PoolClient>()
  const readers = new WeakMap<PoolClient, ResultReader>()
  /** In the order of arrival. */
  const waiters: Waiter[] = []
  /** A pooler may give the statements behind another one to another session. */
  const sharesConnections = settings.prepared && notices !== undefined
  let claimed = 0 // idle connections that the pool hands out in the next tick
  let opening = 0 // connections that the pool is asked for beyond the idle ones
  let running = 0
  let ended = 0
  let long = 0 // connections in long use
  let quickestMs = Infinity // the time of the quickest uses
  let lateTimer: NodeJS.Timeout | undefined
  let closing = false
  /** The database is known to hang. */
  let hangs = false
  let idle: (() => void) | null = null
  /** A connection for the next granted statement. */
  let offered: PoolClient | null = null

  const endHangWatch = watchHangs({
    connection: notices,
    isBusy: () => running > 0,
    ended: () => ended,
    onHang () {
      hangs = true
      const err = new Error('the database does not respond to "select 1" in time')
      log.warn({ err }, 'the database does not respond: requests that need it are rejected until it does')
      gate.close()
      for (const waiter of [...waiters]) refuse(waiter, databaseUnavailable())
    },
    onLongHang () {
      for (const client of [...busy.keys()]) if (!patient.has(client)) release(client, true)
    },
    onResponse () {
      hangs = false
      log.info({}, 'the database responds again')
    }
  })

  const endSilenceWatch = watchSilence({
    notices,
    processOf,
    busy: () => busy.keys(),
    onLost (client) {
      log.warn({}, 'a connection to the database was lost without a sign: its statement is ended')
      release(client, true)
    }
  })

  pool.on('connect', (client) => {
    if (!(client instanceof pg.Client) || !(client.connection.stream instanceof Socket)) return
    readers.set(client, new ResultReader(client.connection.stream, () => createYielder(busy.get(client)?.account.key)))
  })

  /** Waits for a connection in the turn of the tenant. `mayShare`: `done` calls `send`, so the statement may follow others. */
  function acquire ({ tenant, isWanted }: SessionOptions, done: Acquired, mayShare = false): void {
    if (closing || hangs) return done(databaseUnavailable(), null)
    running++
    const until = performance.now() + acquireTimeoutMs
    gate.acquire(tenant, (account) => {
      const refusal = refusalOf(isWanted)
      if (refusal !== null) drop(account, refusal, done)
      else if (offered !== null) take(account, offered, done)
      else if (pool.idleCount > claimed) claim((error, client) => acquired(account, error, client, done))
      else open(account, until - performance.now(), done)
    }, () => {
      finished()
      done(closing || hangs ? databaseUnavailable() : databaseBusy(), null)
    }, mayShare && sharesConnections ? share : undefined)
    if (gate.waiting > 0) lateTimer ??= setTimeout(findLate, longMs)

    function share (client: PoolClient): void {
      const refusal = refusalOf(isWanted)
      if (refusal === null) return done(null, client)
      release(client)
      done(refusal, null)
    }
  }

  /**
   * Few connections have short statements at a time: more would wait for each other's processors, and send fewer statements together. The
   * quickest uses take at least a round trip, which occupies a connection, but no processor.
   */
  function limitShort (): void {
    if (sharesConnections) gate.limitTo(long + Math.max(connectionsOfShort, Math.ceil(shortPerMs * quickestMs)))
  }

  function becomesLong (use: Use): void {
    if (use.isLong) return
    use.isLong = true
    long++
    limitShort()
  }

  /** A short statement that waits for a lock leaves its turn to others. */
  function findLate (): void {
    const latest = performance.now() - longMs
    for (const use of busy.values()) if (use.began <= latest) becomesLong(use)
    lateTimer = gate.waiting > 0 ? setTimeout(findLate, longMs) : undefined
  }

  /** Comes before the release of the connection's place, which others get at once. */
  function endUse (client: PoolClient, use: Use): void {
    ended++
    busy.delete(client)
    readers.get(client)?.ended()
    if (use.isLong) long--
    limitShort()
  }

  /**
   * Sends the statement on its new connection. Behind a short one, it also sends the tenant's next waiting statements: one system call and
   * one wake-up of PostgreSQL serve them all. A statement that is slow once, or waits for a lock, delays its own tenant only.
   */
  function send (client: PoolClient, exchange: Exchange, isShort: boolean): void {
    const use = busy.get(client)!
    const { last } = use
    use.last = exchange
    last?.follow(client, exchange)
    if (!isShort) becomesLong(use)
    const next = isShort && use.statements < mostStatements ? gate.join(use.account) : undefined
    if (next !== undefined) {
      use.statements++
      next(client)
    }
    if (last !== null) return
    use.last = null
    client.query(exchange)
  }

  /** Not at once: each of the waiting statements would release its place within the release of the one before. */
  function drop (account: PoolAccount, refusal: unknown, done: Acquired): void {
    queueMicrotask(() => {
      gate.release(account)
      finished()
      done(refusal, null)
    })
  }

  /** Takes an idle connection. The pool counts it as idle until the next tick. */
  function claim (done: (error: Error | undefined, client: PoolClient | undefined) => void): void {
    claimed++
    pool.connect((error, client) => {
      claimed--
      done(error, client)
    })
  }

  /** Opens a connection, and waits for any connection within the remaining time: waiting for a place has used up some of it. */
  function open (account: PoolAccount, withinMs: number, done: Acquired): void {
    const waiter: Waiter = { account, done, timer: setTimeout(() => refuse(waiter, databaseBusy()), Math.max(1, withinMs)) }
    waiters.push(waiter)
    connect()
  }

  function connect (): void {
    opening++
    pool.connect((error, client) => {
      opening--
      handOver(error, client)
    })
  }

  /** The first waiter gets the connection: opening one takes longer than most statements. */
  function handOver (error: Error | undefined, client: PoolClient | undefined): void {
    if (client !== undefined) {
      const waiter = waiters.shift()
      if (waiter === undefined) client.release()
      else end(waiter, undefined, client)
    } else if (busy.size + claimed === 0) {
      for (const waiter of waiters.splice(0, waiters.length - opening)) end(waiter, error, undefined)
    }
    // Otherwise the waiters get the connections in use: the database may accept no further ones.
  }

  function end (waiter: Waiter, error: Error | undefined, client: PoolClient | undefined): void {
    clearTimeout(waiter.timer)
    acquired(waiter.account, error, client, waiter.done)
  }

  function refuse (waiter: Waiter, error: unknown): void {
    clearTimeout(waiter.timer)
    waiters.splice(waiters.indexOf(waiter), 1)
    gate.release(waiter.account)
    finished()
    waiter.done(error, null)
  }

  function acquired (account: PoolAccount, error: Error | undefined, client: PoolClient | undefined, done: Acquired): void {
    if (client === undefined) {
      gate.release(account)
      finished()
      return done(unreachable(error), null)
    }
    take(account, client, done)
  }

  function take (account: PoolAccount, client: PoolClient, done: Acquired): void {
    offered = null
    busy.set(client, { account, began: performance.now(), isLong: false, statements: 1, last: null })
    done(null, client)
  }

  /** Gives the connection of a successful statement to the next waiting one: the pool would start timers, and let it wait for a tick. */
  function pass (client: PoolClient): void {
    const use = busy.get(client)
    if (use === undefined) return
    if (use.statements === 1) quickestMs = Math.min(1.001 * quickestMs, performance.now() - use.began)
    if (use.statements > 1 || gate.waiting === 0 || waiters.length > 0 || outdated?.has(client) === true) return release(client)
    endUse(client, use)
    offered = client
    gate.release(use.account)
    if (offered !== null) client.release()
    offered = null
    finished()
  }

  function release (client: PoolClient, broken = false): void {
    const use = busy.get(client)
    // Closing the engine, or a hanging database, may have released the connection already.
    if (use === undefined) return
    if (!broken && --use.statements > 0) {
      ended++
      return finished()
    }
    endUse(client, use)
    patient.delete(client)
    client.release(broken || outdated?.has(client) === true)
    // Before the gate, which gives the place to others.
    if (waiters.length > 0 && pool.idleCount > claimed) claim(handOver)
    else if (waiters.length > opening) connect()
    gate.release(use.account)
    finished()
    for (; use.statements > 1; use.statements--) finished()
  }

  function finished (): void {
    if (--running === 0 && idle !== null) idle()
  }

  return {
    acquire,
    connected: (session: SessionOptions) =>
      new Promise<PoolClient>((resolve, reject) =>
        acquire(session, (error, client) => {
          if (client === null) return reject(error)
          becomesLong(busy.get(client)!)
          resolve(client)
        })
      ),
    send,
    release,
    pass,
    /** Exempts the connection's statements from the time limit until its release. */
    keep (client: PoolClient): void {
      patient.add(client)
    },
    get waiting (): number {
      return gate.waiting
    },

    /** Rejects new work, gives running work `timeoutMs`, and then ends it. */
    async close (timeoutMs: number): Promise<void> {
      closing = true
      endHangWatch()
      endSilenceWatch()
      if (running === 0) return
      const isIdle = new Promise<void>((resolve) => {
        idle = resolve
      })
      await settlesWithin(isIdle, timeoutMs)
      // A statement may run for half a minute longer, and a stop takes 10 s.
      gate.close()
      for (const client of [...busy.keys()]) release(client, true)
    }
  }
}

/** The reason why the statement does not run; null if it runs. */
function refusalOf (isWanted: SessionOptions['isWanted']): unknown {
  try {
    return isWanted?.() === false ? callerLeft() : null
  } catch (error) {
    return error
  }
}
