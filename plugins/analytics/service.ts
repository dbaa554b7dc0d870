/** `app.analytics`: the figures of requests. */
import { endOf, timeOf } from '../../lib/http/page.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { dayMs, hourMs } from '../../lib/time/spans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import type { RequestBuffer } from './buffer.js'
import type { Figures, Range, StatsStore } from './store.js'

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

export function createAnalytics (store: StatsStore, buffer: RequestBuffer, retentionDays: number): Analytics {
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
    flush: buffer.flush
  }
}

/**
 * A date is a UTC day, as `to` including the whole day. Without `to` the period ends now, without `from` it begins 24 hours before its end.
 * Throws `validationFailed` for an invalid date, a wrong order, or too long a period.
 */
export function rangeOf ({ from, to }: { readonly from?: string, readonly to?: string }, now: number, maxDays: number): Range {
  // Includes requests of this millisecond.
  const until = to === undefined ? now + 1 : endOf(to, '/query/to')
  const begin = from === undefined ? until - dayMs : timeOf(from, '/query/from')
  if (begin > until) throw invalidInput('/query/from', 'must not be after `to`, which is the current time by default', 'maximum')
  // A caller who computes the start from its own clock is not refused for the duration of the request.
  if (until - begin > maxDays * dayMs + hourMs) {
    throw invalidInput('/query/from', `must be at most ${maxDays} days before \`to\`, as long as counts are kept`, 'minimum')
  }
  return { from: new Date(begin), until: new Date(until) }
}
