/**
 * The origins in tenants' documents, in memory: a preflight names no tenant, so every listed origin passes it. All are read at the first
 * request of another origin, and those of one tenant again when it changes.
 */
import type { FastifyBaseLogger } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { createOriginMatch, type Origins, patternOf } from '../../lib/http/origins.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { maxTenantOrigins } from '../../lib/schema/server.js'

const maxTenants = 50_000 // with origins; 20 origins each take about 100 MB
const maxWait = 1000 // ms that requests of other origins wait for the first read
const retryAfter = 1000 // ms after a failed read
const maxBatch = 500 // tenants in one statement of rereading

export type TenantOrigins = ReturnType<typeof createTenantOrigins>

export function createTenantOrigins (db: Kysely<SystemTables>, log: FastifyBaseLogger) {
  const byTenant = new Map<Owner, { readonly origins: Origins, readonly matches: (origin: string) => boolean }>()
  /** The number of tenants with an origin, a pattern or `*`. */
  let counts = new KeyCounts<string>()
  const outdated = new Set<Owner>()
  let isLoaded = false
  /** Any document may have changed since the last read began. */
  let isReset = false
  let isComplete = true
  let work: Promise<void> | null = null
  let timer: NodeJS.Timeout | undefined
  let isClosed = false
  let failedAt = -Infinity

  function count (origins: Origins, by: 1 | -1): void {
    for (const origin of origins === '*' ? ['*'] : origins) counts.add(origin, by)
  }

  function set (tenant: Owner, origins: Origins | null): void {
    const before = byTenant.get(tenant)
    if (before !== undefined) count(before.origins, -1)
    byTenant.delete(tenant)
    if (origins === null) return
    if (byTenant.size >= maxTenants) {
      if (isComplete) log.error(`more than ${maxTenants} tenants list origins: those of further tenants are refused`)
      isComplete = false
      return
    }
    count(origins, 1)
    byTenant.set(tenant, { origins, matches: createOriginMatch(origins) })
  }

  async function readAll (): Promise<void> {
    isReset = false
    outdated.clear()
    const rows = await readOrigins(db)
    byTenant.clear()
    counts = new KeyCounts()
    for (const { tenant, origins } of rows) set(tenant, origins)
    isLoaded = !isReset
  }

  async function readOutdated (): Promise<void> {
    const tenants = [...outdated].slice(0, maxBatch)
    for (const tenant of tenants) outdated.delete(tenant)
    try {
      const rows = await readOrigins(db, tenants)
      const found = new Map(rows.map(({ tenant, origins }) => [tenant, origins]))
      for (const tenant of tenants) set(tenant, found.get(tenant) ?? null)
    } catch (error) {
      for (const tenant of tenants) outdated.add(tenant)
      throw error
    }
  }

  /** One read at a time. */
  function read (): Promise<void> {
    work ??= (isLoaded ? readOutdated() : readAll()).then(() => {
      work = null
      if (isReset || (isLoaded && outdated.size > 0)) read()
    }, (err: unknown) => {
      work = null
      failedAt = performance.now()
      log.warn({ err }, 'the origins of tenants could not be read: retrying')
      if (!isClosed) timer = setTimeout(read, retryAfter).unref()
    })
    return work
  }

  return {
    /** Waits for the first read; undefined afterwards. */
    ready: (): Promise<boolean> | undefined =>
      isLoaded || performance.now() - failedAt < retryAfter ? undefined : settlesWithin(read(), maxWait),
    /** Some tenant lists the origin. */
    isListed (origin: string): boolean {
      if (counts.of(origin) > 0 || (origin !== 'null' && counts.of('*') > 0)) return true
      const pattern = patternOf(origin)
      return pattern !== undefined && counts.of(pattern) > 0
    },
    isListedBy: (tenant: Owner, origin: string): boolean => byTenant.get(tenant)?.matches(origin) ?? false,
    changed (tenant: Owner): void {
      // If nothing has been read yet, everything is read.
      if (!isLoaded && work === null) return
      outdated.add(tenant)
      if (work === null) read()
    },
    /** Any document may have changed. */
    reset (): void {
      if (!isLoaded && work === null) return
      isReset = true
      isLoaded = false
      read()
    },
    close (): void {
      isClosed = true
      clearTimeout(timer)
    }
  }
}

/** The origins in current documents; of the named tenants, or of all. */
async function readOrigins (db: Kysely<SystemTables>, tenants?: readonly string[]): Promise<{ tenant: Owner, origins: Origins }[]> {
  const named = tenants === undefined ? sql`true` : sql`tenant_id = any(${tenants}::text[])`
  const { rows } = await sql<{ tenant: Owner, origins: unknown }>`
    select c.tenant_id as tenant, c.document->'cors'->'origins' as origins
    from tenantry.tenant_configs c
    join (select tenant_id, max(version) as version from tenantry.tenant_configs where ${named} group by tenant_id) latest
      on latest.tenant_id = c.tenant_id and latest.version = c.version
    where c.document->'cors' is not null`.execute(db)
  return rows.flatMap(({ tenant, origins }) => {
    if (origins === '*') return { tenant, origins }
    return Array.isArray(origins)
      ? { tenant, origins: origins.filter((origin) => typeof origin === 'string').slice(0, maxTenantOrigins) }
      : []
  })
}
