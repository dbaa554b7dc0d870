/** The tenants' routes that this process has loaded: each at its first use. The least recently used are unloaded first. */
import type { FastifyBaseLogger } from 'fastify'
import { type AsyncCache, createAsyncCache } from '../../lib/cache/async-cache.js'
import type { Events } from '../../lib/database/events.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { LoadRoutes } from './load.js'
import type { TenantRoutes } from './tenant-routes.js'

const firstRetry = 500 // ms before the first retry of a document that could not be loaded
const lastRetry = 30_000 // ms; each delay is twice the one before, up to this

export type LoadedDocuments = ReturnType<typeof createLoadedDocuments>

export interface LoadedDocumentsOptions {
  /** The maximum weight of all routes together, see TenantRoutes. */
  readonly max: number
  readonly load: LoadRoutes
  readonly events: Events
  readonly log: FastifyBaseLogger
}

export function createLoadedDocuments ({ max, load, events, log }: LoadedDocumentsOptions) {
  const cache: AsyncCache<TenantRoutes, Owner> = createAsyncCache({
    max,
    load: (tenant) => load(tenant, cache.peek(tenant)),
    weight: { max, of: ({ weight }) => Math.min(weight, max) }
  })
  /** By tenant: resolves with whether the saved document was loaded. */
  const renewals = new Map<string, Promise<boolean>>()
  const retries = new Map<string, NodeJS.Timeout>()
  let isClosed = false

  /** The previous routes keep serving until the saved ones are loaded, also while loading fails. */
  function renew (tenant: Owner, wait = firstRetry): void {
    clearTimeout(retries.get(tenant))
    retries.delete(tenant)
    const renewal = cache.refresh(tenant).then(() => true, (err: unknown) => {
      log.error({ err, tenant }, 'the document of a tenant could not be loaded: still serving the previous version')
      if (!isClosed && cache.peek(tenant) !== undefined) {
        retries.set(tenant, setTimeout(renew, wait, tenant, Math.min(2 * wait, lastRetry)).unref())
      }
      return false
    }).finally(() => {
      if (renewals.get(tenant) === renewal) renewals.delete(tenant)
    })
    renewals.set(tenant, renewal)
  }

  const ends = [
    // A tenant that is not loaded is loaded with its next request.
    events.on('config', (tenant) => {
      if (cache.peek(tenant) === undefined) cache.invalidate(tenant)
      else renew(tenant)
    }),
    events.on('tenant', (tenant) => cache.invalidate(tenant)),
    events.onGap(() => cache.clear())
  ]

  return {
    /** The routes in force. Not a promise if they are loaded. */
    get: (tenant: Owner): TenantRoutes | Promise<TenantRoutes> => cache.get(tenant),
    /**
     * Resolves when the latest announced document serves here. If it could not be loaded, its tenant's routes are invalidated: the next
     * request loads them again.
     */
    async settled (tenant: Owner): Promise<void> {
      // Requests after the response to a save must not get the previous document.
      if (await renewals.get(tenant) === false) cache.invalidate(tenant)
    },
    close (): void {
      isClosed = true
      for (const end of ends) end()
      for (const retry of retries.values()) clearTimeout(retry)
    }
  }
}
