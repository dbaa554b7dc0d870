/** Requests by tenant: the first tenants have their own series, the others share one until one of those is deleted. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Registry } from 'prom-client'
import { createCachedProbe, type CachedProbeOptions } from '../../lib/concurrency/cached-probe.js'
import { Durations, type Series } from './durations.js'

const bounds = [0.1, 0.5, 1, 5] // s; few, since each is a series of every tenant

/** Tenants beyond the bound. No tenant has this id. */
const others = '(other)'

export interface TenantSeries {
  of(tenant: Owner): Series
}

export interface TenantSeriesOptions extends CachedProbeOptions {
  readonly registry: Registry
  /** The highest number of tenants. */
  readonly max: number
  /** Which of these tenants exist. */
  readonly present: (tenants: readonly string[]) => Promise<readonly string[]>
}

export function createTenantSeries ({ registry, max, present, ...options }: TenantSeriesOptions): TenantSeries {
  const known = new Map<Owner, Series>()
  // Called when the series are serialized, which also covers missed deletions.
  const probe = createCachedProbe(async () => {
    const counted = [...known.keys()]
    if (counted.length === 0) return
    const there = new Set(await present(counted))
    for (const tenant of counted) if (!there.has(tenant)) drop(tenant)
  }, options)

  const durations = new Durations({
    name: 'tenantry_tenant_request_duration_seconds',
    help: 'Requests by tenant, and how long they took until their answer was sent.',
    labels: ['tenant'],
    bounds,
    registry,
    collect: async () => {
      await probe()
    }
  })
  let shared: Series | undefined

  function drop (tenant: Owner): void {
    known.delete(tenant)
    durations.drop(tenant)
  }

  return {
    of (tenant) {
      const series = known.get(tenant)
      if (series !== undefined) return series
      if (known.size >= max) {
        shared ??= durations.series(others)
        return shared
      }
      const added = durations.series(tenant)
      known.set(tenant, added)
      return added
    }
  }
}
