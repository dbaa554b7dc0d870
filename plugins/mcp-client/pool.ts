/** Connections with servers: one for each tenant, or one for all where the document says `shared`. */
import type { McpServer } from '../../lib/config/schema/agent.js'
import type { Connection } from './connection.js'
import type { ServerStatus } from './types.js'
import { LRUCache } from 'lru-cache'
import { failure } from '../../lib/errors.js'
import { untilAborted } from '../../lib/until-aborted.js'

const firstDelay = 250 // ms after a failure, before the server starts again; each further failure doubles it
const maxDelay = 60_000 // ms
const calmAfter = 60_000 // ms of a connection, after which its failure counts as the first
const maxSessions = 256 // connections over HTTP
const maxFailures = 10_000 // that are remembered

interface Entry {
  readonly opened: Promise<Connection>
  /** null until it is open. */
  connection: Connection | null
  active: number
}

interface Failures {
  readonly count: number
  /** Milliseconds since 1970. */
  readonly until: number
}

export interface PoolOptions {
  /** @param signal aborted when the pool closes */
  readonly open: (server: McpServer, signal: AbortSignal) => Promise<Connection>
  /** Child processes at the same time. */
  readonly maxProcesses: number
  readonly now: () => number
  readonly onFailure: (server: McpServer, error: unknown) => void
}

export interface Pool {
  /** Rejects with `toolFailed` for a server that is gone, and with the signal's reason. */
  use<Result> (server: McpServer, tenant: string, signal: AbortSignal, work: (connection: Connection) => Promise<Result>): Promise<Result>
  status (server: McpServer, tenant: string): { readonly status: ServerStatus, readonly tools: number }
  close (): Promise<void>
}

export function createPool ({ open, maxProcesses, now, onFailure }: PoolOptions): Pool {
  const kinds = { stdio: createEntries(maxProcesses), http: createEntries(maxSessions) }
  const failures = new LRUCache<string, Failures>({ max: maxFailures })
  const closing = new AbortController()

  const keyOf = ({ name, shared = false }: McpServer, tenant: string) => shared ? `\n${name}` : `${tenant}\n${name}`

  function noteFailure (server: McpServer, key: string, error: unknown, began: number): void {
    if (closing.signal.aborted) return
    const count = now() - began > calmAfter ? 1 : (failures.get(key)?.count ?? 0) + 1
    failures.set(key, { count, until: now() + Math.min(maxDelay, firstDelay * 2 ** (count - 1)) })
    onFailure(server, error)
  }

  function begin (server: McpServer, key: string, entries: Entries): Entry {
    const began = now()
    const entry: Entry = { opened: open(server, closing.signal), connection: null, active: 0 }
    entries.map.set(key, entry)
    entry.opened.then((connection) => {
      entry.connection = connection
      connection.ended.then(() => {
        // One that was ended on purpose is not there any more.
        if (entries.remove(key, entry)) noteFailure(server, key, new Error('the server has ended'), began)
      }).catch((error: unknown) => onFailure(server, error))
    }, (error: unknown) => {
      if (entries.remove(key, entry)) noteFailure(server, key, error, began)
    })
    return entry
  }

  async function take (server: McpServer, tenant: string, signal: AbortSignal): Promise<{ entry: Entry, key: string, entries: Entries }> {
    const key = keyOf(server, tenant)
    const entries = server.command === undefined ? kinds.http : kinds.stdio
    for (let rounds = 0; ; rounds++) {
      if (signal.aborted) entries.wake()
      signal.throwIfAborted()
      if (closing.signal.aborted) throw failure('stopping')
      const known = entries.map.get(key)
      const until = known === undefined ? failures.get(key)?.until ?? 0 : 0
      if (now() < until) throw gone(until - now())
      if (known !== undefined || entries.hasRoom()) {
        const entry = known ?? begin(server, key, entries)
        // At once: an idle one may be ended for another tenant.
        entry.active++
        // Its turn is for the next one, where it needs no place of its own.
        if (known !== undefined && rounds > 0) entries.wake()
        return { entry, key, entries }
      }
      entries.endIdle()
      await entries.turn(signal, rounds > 0)
    }
  }

  return {
    async use (server, tenant, signal, work) {
      const { entry, key, entries } = await take(server, tenant, signal)
      entries.touch(key, entry)
      try {
        // It goes on for others if this caller leaves.
        const connection = await untilAborted(entry.opened.catch((error: unknown) => { throw gone(firstDelay, error) }), signal)
        return await work(connection)
      } finally {
        entry.active--
        entries.wake()
      }
    },

    status (server, tenant) {
      const key = keyOf(server, tenant)
      const entry = (server.command === undefined ? kinds.http : kinds.stdio).map.get(key)
      if (entry?.connection !== undefined && entry.connection !== null) return { status: 'up', tools: entry.connection.count }
      return { status: entry === undefined && (failures.get(key)?.until ?? 0) > now() ? 'down' : 'idle', tools: 0 }
    },

    async close () {
      closing.abort()
      await Promise.all([kinds.stdio.close(), kinds.http.close()])
    }
  }
}

type Entries = ReturnType<typeof createEntries>

/** The one that was used last is the last one. */
function createEntries (max: number) {
  const map = new Map<string, Entry>()
  const ending = new Set<Promise<void>>()
  const waiting: (() => void)[] = []

  /** Has the first of those that wait look again. */
  function wake (): void {
    waiting.shift()?.()
  }

  function end ({ opened }: Entry): Promise<void> {
    const work = opened.then((connection) => connection.close()).catch(() => {}).finally(() => {
      ending.delete(work)
      wake()
    })
    ending.add(work)
    return work
  }

  return {
    map,
    wake,
    /** Resolves when there may be room for the first of those that wait. One that waited before is the first again. */
    turn: (signal: AbortSignal, isFirst: boolean) => new Promise<void>((resolve) => {
      const go = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        const index = waiting.indexOf(go)
        if (index !== -1) waiting.splice(index, 1)
        resolve()
      }
      signal.addEventListener('abort', leave, { once: true })
      if (isFirst) waiting.unshift(go)
      else waiting.push(go)
    }),
    hasRoom: () => map.size + ending.size < max,
    touch (key: string, entry: Entry) {
      if (map.get(key) !== entry) return
      map.delete(key)
      map.set(key, entry)
    },
    /** false if another one has taken its place, or none. */
    remove (key: string, entry: Entry): boolean {
      if (map.get(key) !== entry) return false
      map.delete(key)
      wake()
      return true
    },
    /** Ends the one that was not used for the longest time, of those that no call uses. Its place is free when it has ended. */
    endIdle (): void {
      for (const [key, entry] of map) {
        if (entry.active > 0 || entry.connection === null) continue
        map.delete(key)
        end(entry).catch(() => {})
        return
      }
    },
    async close () {
      const entries = [...map.values()]
      map.clear()
      while (waiting.length > 0) wake()
      await Promise.all([...entries.map(end), ...ending])
    }
  }
}

function gone (ms: number, cause?: unknown): Error {
  return failure('toolFailed', { message: 'The MCP server of the tool is gone; try again later', headers: { 'retry-after': String(Math.max(1, Math.ceil(ms / 1000))) }, cause })
}
