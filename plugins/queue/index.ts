/** Background jobs: `app.queue` and its endpoints. Nothing runs, and the database gets no query, before a job is defined. */
import { sql } from 'kysely'
import { everyHour } from '../../lib/database/retention.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { runWhenReady } from '../../lib/plugin/lifecycle.js'
import { whole } from '../../lib/plugin/options.js'
import { maxWorkers } from '../../lib/schema/queue.js'
import { createBacklogLimit } from './backlog-limit.js'
import { noticeChannel, queueNotice } from './insert.js'
import { createNotifier } from './notifier.js'
import { startPeriods } from './periods.js'
import { queueRoutes } from './routes.js'
import { createQueue } from './service.js'
import { createJobStore } from './store.js'
import type { Queue, QueueStatus } from './types.js'
import { createWorker } from './worker.js'

export { HandedBack } from './types.js'
export type { Handler, Job, Queue, QueueStatus, SendWith, SentJob, SentRow, TaskOptions, WriteRows } from './types.js'

declare module 'fastify' {
  interface FastifyInstance {
    queue: Queue
  }
}

export interface QueueOptions {
  /**
   * Jobs that this process runs at a time, 0 to 100. 0: it only sends them. Jobs that run for more than 30 seconds do not count, up to
   * four times the number in all. Default: 4.
   */
  readonly workers?: number | undefined
  /** The waiting jobs of one tenant, 1 to 10,000,000; they are counted from time to time, so the bound is not exact. Default: 100,000. */
  readonly maxWaitingPerTenant?: number | undefined
  /**
   * Milliseconds for running jobs when the server stops; then they are handed back. Choose less than nine tenths of the `timeoutMs` of the
   * plugin stop, which then ends calls to models and other services. Default: 8000.
   */
  readonly stopTimeoutMs?: number | undefined
}

export default definePlugin<QueueOptions>({
  name: 'queue',
  dependencies: ['database'],
  routeDependencies: ['auth'],
  options: { workers: whole(0, maxWorkers), maxWaitingPerTenant: whole(1, 10_000_000), stopTimeoutMs: whole(0, 600_000) },
  setup (app, { workers = 4, maxWaitingPerTenant = 100_000, stopTimeoutMs = 8000 }) {
    const { db, engine, events, log } = app
    const store = createJobStore(db)
    let wake = () => {}
    // The embedded engine has one process.
    const notifier = createNotifier(async () => {
      if (engine.kind === 'postgres') await sql`select pg_notify(${noticeChannel}, ${queueNotice})`.execute(db)
    }, (err) => log.debug({ err }, 'other processes could not be notified of new jobs; they find them within seconds'))
    const backlog = createBacklogLimit({ max: maxWaitingPerTenant, waiting: store.waiting })
    const service = createQueue({ engine, backlog, wake: () => wake(), notify: notifier.notify })
    const { names, endpointsOf, define, send, sendWith, every } = service
    let status = (): QueueStatus => ({ workers: 0, running: 0, working: true })
    app.decorate('queue', { names, status: () => status(), endpointsOf, define, send, sendWith, every })

    app.addHook('onReady', async () => service.seal())
    // Handlers may need the plugins that become ready later. When the app stops, no job begins while the last requests finish; running jobs
    // can use all plugins until they end.
    runWhenReady(app, () => {
      if (service.tasks.size === 0 || workers === 0) return undefined
      const worker = createWorker({ store, tasks: service.tasks, workers, log })
      wake = worker.wake
      status = () => ({ workers, running: worker.running, working: worker.working })
      const ends = [events.on('queue', wake), events.onGap(wake)]
      worker.start()
      const stopPeriods = startPeriods(service, log)
      const stopSweeping = everyHour(
        () => store.sweep(),
        (err) => log.warn({ err }, 'old jobs could not be removed; the next sweep tries again')
      )
      return async () => {
        for (const end of ends) end()
        await Promise.all([stopPeriods(), stopSweeping(), worker.stop(performance.now() + stopTimeoutMs)])
      }
    })
    app.addHook('onClose', () => notifier.close())
    return queueRoutes
  }
})
