/**
 * Registers @fastify/rate-limit, so that `config.rateLimit`, `app.rateLimit` and `app.createRateLimit` work as documented there. It
 * counts in this plugin's store, through its documented store interface.
 *
 * The rules of this plugin use the same store directly. The interface counts one limit at a time and cannot give a request back. So
 * it cannot count a request in two limits or in none, nor skip responses by their status.
 */
import type { FastifyRateLimitStore, RateLimitOptions } from '@fastify/rate-limit'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { refuseEarlierRoutes } from '../../lib/http/guards.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { createMemoryCounter } from './memory.js'
import type { Counter, CounterOptions, RateLimitStore, WindowCount } from './store.js'

const defaultCache = 5000 // clients of a count, as @fastify/rate-limit documents

type Callback = Parameters<FastifyRateLimitStore['incr']>[1]

/** Registers it once. An earlier registration by the app is left as it is. */
export async function registerRateLimit (app: FastifyInstance, store: RateLimitStore, now: () => number): Promise<void> {
  if (app.hasDecorator('createRateLimit')) return
  refuseEarlierRoutes(app, 'rate-limit', ({ rateLimit }, context) => isRecord(rateLimit) && !context.hasDecorator('createRateLimit'))
  // Before the hook of @fastify/rate-limit, which reads the options of the route.
  app.addHook('onRoute', (route) => {
    const given = route.config?.rateLimit
    if (isRecord(given)) route.config = { ...route.config, rateLimit: checked(route, given) }
  })
  // Imported here, so that an import of this package does not wait for it.
  const { default: rateLimit } = await import('@fastify/rate-limit')
  await app.register(rateLimit, { global: false, store: storeClass(store, now) })
}

/** The store class. @fastify/rate-limit makes an instance for all limiters without options, and for each route and limiter with options. */
function storeClass (store: RateLimitStore, now: () => number) {
  const createCounter = store.counter?.bind(store) ?? createMemoryCounter
  const limiters = new Map<string, number>()

  /** Instances that share a store create their limiters in the same order. A number distinguishes equal limiters. */
  function nameOf ({ routeInfo, max, timeWindow }: Readonly<Record<string, unknown>>): string {
    if (!isRecord(routeInfo)) return 'all'
    const { method, url, constraints } = routeInfo
    if (typeof url === 'string') {
      const versions = isRecord(constraints) ? Object.entries(constraints).map(([key, value]) => ` ${key}=${String(value)}`) : []
      return `${String(method).replace('HEAD', 'GET')} ${url}${versions.join('')}`
    }
    const kind = [max, timeWindow].map((value) => typeof value === 'number' ? value : '*').join('/')
    const number = (limiters.get(kind) ?? 0) + 1
    limiters.set(kind, number)
    return `limiter ${kind} ${number}`
  }

  return class Store implements FastifyRateLimitStore {
    readonly #counter: Counter

    constructor (options: object) {
      const merged: Readonly<Record<string, unknown>> = { ...options }
      const { timeWindow, cache, routeInfo } = merged
      if (typeof timeWindow !== 'function' && !isWindow(timeWindow)) {
        const place = isRecord(routeInfo) && typeof routeInfo['url'] === 'string'
          ? `the route ${String(routeInfo['method'])} ${routeInfo['url']}: config.rateLimit.`
          : 'rate limit: '
        throw new Error(`${place}timeWindow is invalid: expected milliseconds, or a string such as "1 minute"`)
      }
      this.#counter = createCounter({
        name: nameOf(merged),
        cache: typeof cache === 'number' && cache > 0 ? cache : defaultCache,
        renewal: renewalOf(merged)
      })
    }

    incr (key: string | number, callback: Callback, timeWindow: number, max: number): void {
      if (isWindow(timeWindow)) settle(this.#counter.hit(String(key), timeWindow, max, now()), callback)
      else callback(new Error('the function timeWindow of a rate limit must return a number of milliseconds'))
    }

    read (key: string | number, callback: Callback): void {
      settle(this.#counter.read(String(key), now()), callback)
    }

    child (options: object): Store {
      return new Store(options)
    }
  }
}

function isWindow (value: unknown): value is number {
  return typeof value === 'number' && value >= 0
}

function renewalOf ({ continueExceeding, exponentialBackoff }: Readonly<Record<string, unknown>>): CounterOptions['renewal'] {
  if (continueExceeding === true) return 'restart'
  return exponentialBackoff === true ? 'double' : 'none'
}

function settle (counted: WindowCount | Promise<WindowCount>, callback: Callback): void {
  if (counted instanceof Promise) counted.then((result) => callback(null, result), callback)
  else callback(null, counted)
}

/** A wrong `max` fails the start: @fastify/rate-limit would replace it by 1000. Marks refused requests, which do not count as usage. */
function checked ({ method, url }: RouteOptions, options: RateLimitOptions): RateLimitOptions {
  const { max, onExceeded } = options
  if (max !== undefined && typeof max !== 'function' && !(typeof max === 'number' && max >= 0)) {
    throw new Error(
      `the route ${String(method)} ${url}: config.rateLimit.max is ${JSON.stringify(max)}: expected a number from 0, or a function`
    )
  }
  return {
    ...options,
    onExceeded (request, key) {
      request.rateLimited = true
      onExceeded?.(request, key)
    }
  }
}
