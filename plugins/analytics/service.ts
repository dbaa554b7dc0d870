/** `app.analytics`: the figures of requests. */
import { platformRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { RequestBuffer } from './buffer.js'
import type { Range } from './range.js'
import type { Figures, StatsStore } from './store.js'
import { hourMs } from '../../lib/time/spans.js'

export interface Analytics {
  /** Days for which figures are kept. */
  readonly retentionDays: number
  /**
   * The figures of a tenant, or without one of all requests. They are kept by the hour: the result has every hour that the
   * period touches as a whole, and the figures that wait in this server.
   */
  summary(range: Range, tenant?: string): Promise<Figures>
  /** Writes what was counted; resolves also where that failed, which is logged and tried again. */
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
