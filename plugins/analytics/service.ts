/** `app.analytics`: the figures of requests. */
import { platformRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { RequestBuffer } from './buffer.js'
import type { Range } from './range.js'
import type { Figures, StatsStore } from './store.js'
import { hourMs } from '../../lib/time/spans.js'

export interface Analytics {
  /** The days that figures are kept. */
  readonly retentionDays: number
  /**
   * The figures of a tenant, or without one of all requests. They are kept by the hour: the result includes the first and last hour as a
   * whole, and this server's waiting figures.
   */
  summary(range: Range, tenant?: string): Promise<Figures>
  /** Writes the counts; a failure is logged and repeated, and does not reject. */
  flush(): Promise<void>
}

export interface AnalyticsDependencies {
  readonly store: StatsStore
  readonly buffer: RequestBuffer
  readonly retentionDays: number
}

export function createAnalytics ({ store, buffer, retentionDays }: AnalyticsDependencies): Analytics {
  return {
    retentionDays,
    async summary ({ from, until }, tenant: Owner = platformRef) {
      await buffer.flush()
      return await store.read({
        tenant,
        from: new Date(Math.floor(from.getTime() / hourMs) * hourMs),
        until: new Date(Math.ceil(until.getTime() / hourMs) * hourMs)
      })
    },
    flush: () => buffer.flush()
  }
}
