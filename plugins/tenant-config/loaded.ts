/** The routes of tenants that this process has at hand: loaded at first use, the least recently used leave first. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Events } from '../../lib/database/events.js'
import type { LoadRoutes } from './load.js'
import type { TenantRoutes } from './tenant-routes.js'
import { createAsyncCache, type AsyncCache } from '../../lib/cache/async-cache.js'

const firstRetry = 500 // ms until a document that could not be read is tried again
const lastRetry = 30_000 // ms; each attempt waits twice as long as the one before

export interface Loaded {
  /** The routes in force; at once where they are at hand. */
  get(tenant: Owner): TenantRoutes | Promise<TenantRoutes>
  /** Resolves when a document of which notice has come serves here, and none before it does. */
  settled(tenant: Owner): Promise<void>
  close(): void
}

export interface LoadedOptions {
  /** What all routes together may weigh, see TenantRoutes. */
  readonly max: number
  readonly load: LoadRoutes
  readonly events: Events
  readonly log: FastifyBaseLogger
}

export function createLoaded ({ max, load, events, log }: LoadedOptions): Loaded {
  const cache: AsyncCache<TenantRoutes, Owner> = createAsyncCache<TenantRoutes, Owner>({
    max,
    load: (tenant) => load(tenant, cache.peek(tenant)),
    weight: { max, of: ({ weight }) => Math.min(weight, max) }
  })
  /** By tenant: whether what was saved is there. */
  const renewals = new Map<string, Promise<boolean>>()
  const retries = new Map<string, NodeJS.Timeout>()

  /** The routes before serve until those that were saved are there; where these cannot be read, for longer. */
  function renew (tenant: Owner, wait = firstRetry): void {
    clearTimeout(retries.get(tenant))
    retries.delete(tenant)
    const renewal = cache.refresh(tenant).then(() => true, (err: unknown) => {
      log.error({ err, tenant }, 'the document of a tenant could not be loaded: the one before serves on')
      if (cache.peek(tenant) !== undefined) retries.set(tenant, setTimeout(renew, wait, tenant, Math.min(2 * wait, lastRetry)).unref())
      return false
    }).finally(() => {
      if (renewals.get(tenant) === renewal) renewals.delete(tenant)
    })
    renewals.set(tenant, renewal)
  }

  const ends = [
    // An unused tenant is loaded with its next request.
    events.on('config', (tenant) => {
      if (cache.peek(tenant) === undefined) cache.invalidate(tenant)
      else renew(tenant)
    }),
    events.on('tenant', (tenant) => cache.invalidate(tenant)),
    events.onGap(() => cache.clear())
  ]

  return {
    get: (tenant) => cache.get(tenant),
    async settled (tenant) {
      // After the response to a save, requests get the new document.
      if (await renewals.get(tenant) === false) cache.invalidate(tenant)
    },
    close () {
      for (const end of ends) end()
      for (const retry of retries.values()) clearTimeout(retry)
    }
  }
}
