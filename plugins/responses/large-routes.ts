/** Limits how many large responses an account builds at a time. The last responses of a route show whether it is large. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { FairSemaphore } from '../../lib/concurrency/fair-semaphore.js'
import { failure, retryIn } from '../../lib/errors.js'

const largeResponse = 1_048_576 // bytes
const atOnce = 2 // for an account
const maxWaiting = 100 // for an account
const waitMs = 10_000
const remembered = 50 // smaller responses after which a route no longer counts as large
const maxRoutes = 10_000
const readMs = 1000 // ms for the reader of a large response; a slower reader loses its place
const leftMs = 60_000 // ms that a request whose caller left keeps its place, if its handler never makes a response
const retryAfter = 1 // s

interface LargeRoute {
  /** The bytes of the last large response. */
  readonly size: number
  /** The number of smaller responses until the route no longer counts as large. */
  readonly left: number
}

interface Line {
  readonly gate: FairSemaphore<string>
  length: number
}

export class LargeRoutes {
  /** The large routes. Usually there are none, so that a request needs no look-up. */
  readonly known = new LRUCache<string, LargeRoute>(lruOptions(maxRoutes))
  private readonly lines = new Map<string, Line>()
  /** The function that frees the place of a request or a call. */
  private readonly places = new WeakMap<object, () => void>()

  /**
   * Calls `done` when the request may be handled: at once, unless its route is large. `fits`: whether the account may have a further
   * unread response of that size; without it the request is refused before it runs.
   */
  enter (
    account: string,
    request: FastifyRequest,
    reply: FastifyReply,
    fits: (size: number) => boolean,
    done: (error?: Error) => void
  ): void {
    const route = this.known.get(keyOf(account, request))
    if (route === undefined) return done()
    this.queue(account, (free) => {
      if (!fits(route.size)) {
        free()
        return done(unread())
      }
      let timer: NodeJS.Timeout | undefined
      const leave = () => {
        clearTimeout(timer)
        if (this.places.delete(request)) free()
      }
      this.places.set(request, leave)
      const { raw } = reply
      if (raw.destroyed) return leave()
      raw.once('close', () => {
        if (reply.sent || raw.headersSent) leave()
        // The caller left, and the response is still being made.
        else if (this.places.has(request)) timer = setTimeout(leave, leftMs).unref()
      })
      done()
    }, done)
  }

  /**
   * Runs a route within this process, with the limits of a request. A call within a request that has a place needs no other one: it
   * would wait for its own end. `route`: method and path.
   */
  async run (account: () => string, route: string, call: object, within: object, work: () => Promise<string>): Promise<string> {
    const key = () => `${account()} ${route}`
    const outer = this.places.get(within)
    if (outer !== undefined) this.places.set(call, outer)
    if (outer !== undefined || this.known.size === 0 || !this.known.has(key())) return this.remember(key, await work())
    const free = await new Promise<() => void>((resolve, reject) => this.queue(account(), resolve, reject))
    this.places.set(call, free)
    try {
      return this.remember(key, await work())
    } finally {
      free()
    }
  }

  /** Call it when the response of the request exists and is about to be written. Errors do not show how large the route's responses are. */
  leave (account: string, request: FastifyRequest, { statusCode, raw }: FastifyReply, size: number): void {
    const leave = this.places.get(request)
    if (size >= largeResponse) {
      // Prevents responses from being built faster than they are read.
      if (raw.destroyed) leave?.()
      else if (leave !== undefined) setTimeout(leave, readMs).unref()
      this.known.set(keyOf(account, request), { size, left: remembered })
      return
    }
    leave?.()
    if (this.known.size > 0 && statusCode < 400) this.forget(keyOf(account, request))
  }

  /** Refuses the waiting requests. */
  close (): void {
    for (const { gate } of this.lines.values()) gate.close()
  }

  private remember (key: () => string, text: string): string {
    if (text.length >= largeResponse) this.known.set(key(), { size: text.length, left: remembered })
    else if (this.known.size > 0) this.forget(key())
    return text
  }

  /** Counts a smaller response of the route. */
  private forget (key: string): void {
    const route = this.known.get(key)
    if (route === undefined) return
    if (route.left > 1) this.known.set(key, { ...route, left: route.left - 1 })
    else this.known.delete(key)
  }

  /** Calls `granted` with a function that frees the place, once there is one. */
  private queue (account: string, granted: (free: () => void) => void, refused: (error: Error) => void): void {
    let line = this.lines.get(account)
    if (line === undefined) {
      line = { gate: new FairSemaphore<string>(atOnce, waitMs, { keepsFree: false }), length: 0 }
      this.lines.set(account, line)
    }
    const { gate } = line
    if (gate.waiting >= maxWaiting) return refused(busy())
    line.length++
    gate.acquire(account, (holder) =>
      granted(() => {
        gate.release(holder)
        this.shorten(account, line)
      }), () => {
      this.shorten(account, line)
      refused(busy())
    })
  }

  private shorten (account: string, line: Line): void {
    if (--line.length === 0) this.lines.delete(account)
  }
}

function keyOf (account: string, { method, tenantRoute, routeOptions }: FastifyRequest): string {
  return `${account} ${method} ${tenantRoute?.declared.path ?? routeOptions.url}`
}

function busy (): Error {
  return failure('responsesBusy', retryIn(retryAfter))
}

/** The account has too many unread bytes. */
export function unread (): Error {
  return failure('responsesUnread', retryIn(retryAfter))
}
