/** The connection to Redis, which instances share. Each use has a fallback while Redis is away, and no command waits for a connection. */
import { hash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { messageOf } from '../errors.js'
import { atMostEvery } from '../time/spans.js'
import { connectorTo } from './connector.js'
import { readRedisUrl } from './url.js'

// ms without a byte from Redis before it counts as hanging; checked at this interval, so a caller waits at most twice as long
const replyTimeMs = 250
const handshakeTime = 2000 // ms for a connection to become usable; callers do not wait for it
const retryTime = 500 // ms from the end of a connection to the next attempt: Redis is used within a second of its return
const longestRetryTime = 10_000 // ms, for a Redis that replies but is unusable
const startTime = 1000 // ms that a start waits for the first connection
const refusalLogTime = 60_000 // ms between two lines on commands that Redis refuses
const probe = 'tenantry:probe' // a key that never exists
const usable = 'usable' // event: writes work

/** The part of a server's log that is used here. */
export interface Log {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
}

export interface RedisConnection {
  /**
   * The result of the work, or the fallback: at once while Redis is away, otherwise after a failure of the work. The work sends its
   * commands and waits for nothing else.
   *
   * `memory` identifies the data of this Redis. Each restart and failover changes it, so that restored data can be recognized.
   */
  run<Value>(work: (client: Redis, memory: string) => Promise<Value>, fallback: () => Value | Promise<Value>): Value | Promise<Value>
  /** Calls `work` at each connection after the first, before any other command. The log says that Redis is back after all promises. */
  onReturn(work: (client: Redis) => Promise<unknown>): void
  /** Ends the connection when all its users have closed it; running commands fall back. */
  close(): void
}

interface Shared {
  readonly connection: RedisConnection
  users: number
}

/** By the log of a server, whose plugins share one connection for each address. */
const connections = new WeakMap<Log, Map<string, Promise<Shared>>>()

/**
 * Connects to `url`, or joins the connection that another plugin of the same server opened. Resolves when Redis answers, or after a second;
 * then it tries again twice a second, and less and less often if Redis takes no writes. The log has one line when Redis goes away and one
 * when it is usable again. Throws if the package ioredis is not installed.
 *
 * @param url `redis://` or `rediss://`
 */
export async function openRedis (url: string, log: Log): Promise<RedisConnection> {
  const known = connections.get(log) ?? new Map<string, Promise<Shared>>()
  connections.set(log, known)
  let opening = known.get(url)
  if (opening === undefined) {
    opening = connect(url, log).then((connection) => ({ connection, users: 0 }))
    known.set(url, opening)
    opening.catch(() => known.delete(url))
  }
  const shared = await opening
  shared.users++
  let isOpen = true
  return {
    run: shared.connection.run,
    onReturn (work) {
      shared.connection.onReturn((client) => isOpen ? work(client) : Promise.resolve())
    },
    close () {
      if (!isOpen) return
      isOpen = false
      if (--shared.users > 0) return
      known.delete(url)
      shared.connection.close()
    }
  }
}

/** Runs Lua in Redis by its digest; the text is sent if Redis does not know it. */
export function redisScript (
  text: string
): (client: Redis, keys: readonly string[], values: readonly (string | number)[]) => Promise<unknown> {
  const digest = hash('sha1', text)
  return (client, keys, values) =>
    client.evalsha(digest, keys.length, ...keys, ...values).catch((error: unknown) => {
      if (!messageOf(error).startsWith('NOSCRIPT')) throw error
      return client.eval(text, keys.length, ...keys, ...values)
    })
}

async function connect (url: string, log: Log): Promise<RedisConnection> {
  const { address, shown: redis } = addressOf(url)
  const Redis = await loadClient()
  const client = new Redis(url, {
    Connector: await connectorTo(address),
    connectTimeout: handshakeTime,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => pause,
    // A primary that became a replica: the address may lead to the new primary.
    reconnectOnError ({ message }) {
      if (!message.includes('READONLY')) return false
      reason = message
      return true
    }
  })
  let pause = retryTime
  let memory = ''
  let isUp = false
  let isReportedAway = false
  let isClosed = false
  let reason = 'no reply'
  const mayLogRefusal = atMostEvery(refusalLogTime)
  let handshake: NodeJS.Timeout | undefined
  let watch: NodeJS.Timeout | undefined
  let pending = 0
  let isGathering = false
  const returns: ((client: Redis) => Promise<unknown>)[] = []

  function away (why: string): void {
    isUp = false
    if (isReportedAway || isClosed) return
    isReportedAway = true
    log.warn({ redis, reason: why }, 'Redis cannot be used: until it is back each instance limits and caches by itself')
  }

  /** These commands are the first ones of the connection. */
  function returned (stream: Redis['stream']): void {
    if (!isReportedAway) return
    pending++
    watchOn()
    Promise.allSettled(returns.map((work) => work(client))).then(() => {
      pending--
      if (!isUp || client.stream !== stream) return
      isReportedAway = false
      log.info({ redis }, 'Redis is back: instances share their counts and caches again')
    }, () => {})
  }

  /** Drops the connection if pending commands got no bytes within the time. */
  function watchOn (): void {
    if (watch !== undefined || pending === 0 || !isUp) return
    const { bytesRead } = client.stream
    watch = afterReads(replyTimeMs, () => {
      watch = undefined
      if (isUp && pending > 0 && client.stream.bytesRead === bytesRead) {
        away(`no reply in ${replyTimeMs} ms`)
        // `disconnect` would wait for the other side.
        client.stream.destroy()
      } else watchOn()
    })
  }

  /** Commands of one turn of the event loop share one write, a quarter less CPU. Unlike in a pipeline, none waits for another's reply. */
  function gather (): void {
    if (isGathering) return
    isGathering = true
    const { stream } = client
    stream.cork()
    setImmediate(() => {
      isGathering = false
      stream.uncork()
    })
  }

  client.on('error', (error) => {
    reason = error.message
  })
  client.on('connect', () => {
    const { stream } = client
    handshake = afterReads(handshakeTime, () => {
      if (isUp || stream.destroyed) return
      reason = 'no reply to the handshake'
      stream.destroy()
    })
  })
  client.on('ready', () => {
    const { stream } = client
    checkUsable(client).then((found) => {
      clearTimeout(handshake)
      if (stream.destroyed || isClosed) return
      memory = found
      isUp = true
      pause = retryTime
      reason = 'the connection ended'
      returned(stream)
      client.emit(usable)
    }, (error: unknown) => {
      if (stream.destroyed) return
      pause = Math.min(2 * pause, longestRetryTime)
      reason = messageOf(error)
      stream.destroy()
    })
  })
  client.on('close', () => {
    clearTimeout(handshake)
    clearTimeout(watch)
    watch = undefined
    away(reason)
    reason = 'the connection ended'
  })
  await firstConnection(client)
  if (!isUp) away(reason)

  return {
    run (work, fallback) {
      if (!isUp) return fallback()
      pending++
      watchOn()
      gather()
      return work(client, memory).then((value) => {
        pending--
        return value
      }, (error: unknown) => {
        pending--
        // The log reports the commands that a lost connection fails once.
        if (isUp && client.stream.writable && mayLogRefusal()) {
          log.warn({ redis, reason: messageOf(error) }, 'Redis rejected a command: this instance continued without it')
        }
        return fallback()
      })
    },
    onReturn (work) {
      returns.push(work)
    },
    close () {
      isClosed = true
      isUp = false
      clearTimeout(handshake)
      clearTimeout(watch)
      client.disconnect()
      client.stream?.destroy()
    }
  }
}

/** Calls back after the time, and after the reads that wait in a busy process. */
function afterReads (ms: number, work: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(work), ms).unref()
}

async function loadClient (): Promise<typeof Redis> {
  try {
    return (await import('ioredis')).Redis
  } catch (error) {
    throw new Error('Redis needs the package ioredis: npm i ioredis@6', { cause: error })
  }
}

/**
 * Checks that Redis is usable. Throws if it refuses a write, as a replica does, and for a cluster, whose scripts cannot use keys of several
 * slots. Returns the identity of its data: the run id, since a restart reads a snapshot, and the replication id, which changes when a
 * replica becomes a primary and may lack the last writes.
 */
async function checkUsable (client: Redis): Promise<string> {
  const info = await client.info()
  // Before the write, which a cluster can refuse with a reason that does not help.
  if (/^redis_mode:cluster/m.test(info)) {
    throw new Error('this is a Redis Cluster, which is not supported: use a Redis without cluster mode')
  }
  await client.unlink(probe)
  const [run, history] = [/^run_id:(\w+)/m, /^master_replid:(\w+)/m].map((pattern) => pattern.exec(info)?.[1])
  if (run === undefined || history === undefined) throw new Error('INFO of Redis lacks run_id or master_replid')
  return hash('sha256', `${run} ${history}`, 'base64url').slice(0, 12)
}

/** Waits until the first connection is usable, fails, or takes too long. */
function firstConnection (client: Redis): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, startTime)
    for (const event of [usable, 'close']) {
      client.once(event, () => {
        clearTimeout(timer)
        resolve()
      })
    }
  })
}

/** The address, and its text without the password. */
function addressOf (url: string): { address: URL, shown: string } {
  const address = readRedisUrl(url)
  if (address === null) throw new Error('the URL of Redis is invalid: expected redis://user:password@host:port/database')
  const { protocol, host, pathname } = address
  return { address, shown: `${protocol}//${host}${pathname}` }
}
