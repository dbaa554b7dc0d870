/** What `app.analytics` is. */
import type { FastifyBaseLogger } from 'fastify'
import type { RequestBuffer } from './buffer.js'
import type { Range } from './range.js'
import type { Figures, StatsStore } from './store.js'
import { hour } from './buffer.js'

const day = 86_400_000 // ms
const sweepEvery = 3_600_000 // ms

export interface Analytics {
  /** Days for which figures are kept. */
  readonly retentionDays: number
  /**
   * The figures of a tenant, or without one of all requests, whoever's they were. They are kept by the hour: every hour
   * that the time touches is in them as a whole. What this server has counted is in them.
   */
  summary (range: Range, tenant?: string): Promise<Figures>
  /** Writes what was counted; resolves also where that failed, which is logged and tried again. */
  flush (): Promise<void>
}

export interface AnalyticsDependencies {
  readonly store: StatsStore
  readonly buffer: RequestBuffer
  readonly retentionDays: number
}

export function createAnalytics ({ store, buffer, retentionDays }: AnalyticsDependencies): Analytics {
  return {
    retentionDays,
    async summary ({ from, until }, tenant = '') {
      await buffer.flush()
      return await store.read({
        tenant,
        from: new Date(Math.floor(from.getTime() / hour) * hour),
        until: new Date(Math.ceil(until.getTime() / hour) * hour)
      })
    },
    flush: () => buffer.flush()
  }
}

/** Removes what is too old, every hour, the servers of one database at different times; returns the end of it, which waits for one that runs. */
export function startSweeping (store: StatsStore, retentionDays: number, log: FastifyBaseLogger, now: () => number): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  const sweep = () => {
    const at = now()
    running = store.sweep(new Date(at - retentionDays * day), new Date(at)).catch((err: unknown) => log.warn({ err }, 'old figures of requests could not be removed; it is tried again'))
  }
  let timer = setTimeout(() => {
    sweep()
    timer = setInterval(sweep, sweepEvery).unref()
  }, Math.random() * sweepEvery).unref()
  return async () => {
    // Node clears either kind of timer with either function.
    clearTimeout(timer)
    await running
  }
}
