/** Requests by tenant: the first tenants have their own series, the others share one until one of those is deleted. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { Histogram, type Registry } from 'prom-client'
import { createCachedProbe, type CachedProbeOptions } from '../../lib/concurrency/cached-probe.js'

const buckets = [0.1, 0.5, 1, 5] // s; few, since each is a series of every tenant

/** Tenants beyond the bound. No tenant has this id. */
const others = '(other)'

export interface TenantSeries {
  observe(tenant: Owner, seconds: number): void
}

export interface TenantSeriesOptions extends CachedProbeOptions {
  readonly registry: Registry
  /** The highest number of tenants. */
  readonly max: number
  /** Which of these tenants exist. */
  readonly present: (tenants: readonly string[]) => Promise<readonly string[]>
}

export function createTenantSeries ({ registry, max, present, ...options }: TenantSeriesOptions): TenantSeries {
  const known = new Set<Owner>()
  // Asked when the series are written down, and so whatever was missed of deletions by then.
  const probe = createCachedProbe(async () => {
    if (known.size === 0) return
    const there = new Set<string>(await present([...known]))
    for (const tenant of known) if (!there.has(tenant)) drop(tenant)
  }, options)

  const durations = new Histogram({
    name: 'tenantry_tenant_request_duration_seconds',
    help: 'Requests by tenant, and the time until their response was sent.',
    labelNames: ['tenant'],
    buckets,
    registers: [registry],
    collect: async () => {
      await probe()
    }
  })

  function drop (tenant: Owner): void {
    known.delete(tenant)
    durations.remove({ tenant })
  }

  return {
    observe (tenant, seconds) {
      if (known.size < max) known.add(tenant)
      durations.observe({ tenant: known.has(tenant) ? tenant : others }, seconds)
    }
  }
}
