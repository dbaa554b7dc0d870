/** Takes jobs and runs them, for one process. Its log lines contain no data of jobs. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { createBatcher } from '../../lib/concurrency/batcher.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { isOutage } from '../../lib/database/failures.js'
import { createPoller } from '../../lib/database/poller.js'
import { isFailure } from '../../lib/errors.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { lease } from './insert.js'
import { outputOf, traceOf } from './job-error.js'
import { type JobStore, maxLost, type TakenJob, type Want } from './store.js'
import { HandedBack, type Task } from './types.js'

const idlePauseMs = 5000 // between polls without notices, which also find jobs of dead processes
const upkeepPauseMs = 250 // between polls for due jobs, for any number of sends
const outagePauseMs = 1000 // before another try to write the end of an attempt
const beatMs = lease * 1000 / 3
const settledMs = 2 * beatMs // after an outage, in which no worker could renew its jobs
const handingBackMs = 500
const shortMs = 30_000 // for which a job takes a place; later the place is for another
const maxPerPlace = 4 // running jobs, short and long ones
const unreachedMs = 3 * idlePauseMs // without contact to the database, after which workers count as stopped

export interface WorkerParts {
  readonly store: JobStore
  readonly tasks: ReadonlyMap<string, Task>
  /** Places for short jobs, at least 1. */
  readonly workers: number
  readonly log: FastifyBaseLogger
}

/** An attempt is over although its handler runs. */
class AttemptEnded extends Error {
  override readonly name = 'JobEnded'
  readonly why: 'expired' | 'lost' | 'stopped'

  constructor (why: AttemptEnded['why'], message: string) {
    super(message)
    this.why = why
  }
}

interface RunningJob {
  readonly job: TakenJob
  /** In milliseconds of the process's clock. */
  readonly since: number
  readonly controller: AbortController
  readonly done: Promise<void>
}

export function createWorker ({ store, tasks, workers, log }: WorkerParts) {
  // Independently of its number of jobs and their durations, the other half is for others.
  const ofOneTenant = Math.ceil(workers / 2)
  const maxRunning = maxPerPlace * workers
  const running = new Set<RunningJob>()
  const draining = new AbortController()
  let isUrgent = false
  let heartbeat: NodeJS.Timeout | undefined
  let beating = false
  /** The next tenant, by name. */
  const turns = new Map<string, string>()
  let rounds = 0
  // In milliseconds of the process's clock, which never jumps.
  let lastUpkeep = -Infinity
  let nextUpkeep = -Infinity
  let reachedAt = -Infinity
  let lookedAt = performance.now()
  const poller = createPoller({
    poll,
    signal: draining.signal,
    log,
    messages: {
      failed: 'jobs do not run: the database cannot be reached, is too busy, or is not migrated. Retrying',
      again: 'jobs are run again'
    }
  })
  const complete = createBatcher<TakenJob, void>((jobs) => store.complete(jobs))
  const handBack = createBatcher<TakenJob, void>((jobs) => store.handBack(jobs))

  /** There may be work. */
  function wake (): void {
    nextUpkeep = Math.min(nextUpkeep, lastUpkeep + upkeepPauseMs)
    poller.wake()
  }

  async function poll (): Promise<number> {
    try {
      await upkeep()
      do lookedAt = performance.now()
      while (await take())
    } catch (error) {
      reachedAt = Infinity
      throw error
    }
    if (reachedAt === Infinity) reachedAt = performance.now()
    return nextUpkeep - performance.now()
  }

  async function upkeep (): Promise<void> {
    const now = performance.now()
    if (now < nextUpkeep) return
    const closing = [...tasks.values()].flatMap(({ name, setAside }) => setAside === undefined ? [] : [name])
    const own = Array.from(running, ({ job }) => job.id)
    const { takenOver, givenUp, setAside, nextDue } = await store.upkeep(now - reachedAt >= settledMs, own, closing)
    lastUpkeep = performance.now()
    nextUpkeep = lastUpkeep + Math.min(idlePauseMs, nextDue === null ? idlePauseMs : Math.ceil(nextDue) + 1)
    if (takenOver > 0) log.warn({ jobs: takenOver }, 'jobs of a stopped process run again')
    if (givenUp > 0) log.error({ jobs: givenUp }, 'jobs failed permanently: their processes have stopped, and they cannot be retried')
    if (setAside > 0) log.error({ jobs: setAside }, 'jobs failed permanently: each ended two processes')
  }

  /** Takes jobs if there is room for them; false without room or jobs. */
  async function take (): Promise<boolean> {
    const longSince = performance.now() - shortMs
    const short = Array.from(running).filter(({ since }) => since > longSince).length
    const free = Math.min(workers - short, maxRunning - running.size)
    const current = Array.from(running, ({ job }) => job)
    const wants = inTurn([...tasks.values()], rounds++).map(({ name, concurrency }): Want => ({
      task: name,
      from: turns.get(name) ?? '',
      capacity: Math.min(workers, concurrency - current.filter(({ task }) => task === name).length)
    })).filter(({ capacity }) => capacity > 0)
    if (draining.signal.aborted || free <= 0 || wants.length === 0) return false
    // The last place is for the platform. A single place is for everybody.
    const onlyPlatform = free === 1 && (workers > 1 || running.size === maxRunning - 1)
    const jobs = await taken(wants, Math.max(1, free - 1), current, onlyPlatform)
    for (const { task, from } of wants) {
      const last = lastInTurn(jobs.filter((job) => job.task === task), from)
      if (last !== undefined) turns.set(task, `${last}\u0001`)
    }
    for (const job of jobs) launch(job)
    return jobs.length > 0
  }

  async function taken (wants: readonly Want[], limit: number, current: readonly TakenJob[], onlyPlatform: boolean): Promise<TakenJob[]> {
    const ofTenants = new Map<string, number>()
    for (const { tenant } of current) if (tenant !== platformRef) ofTenants.set(tenant, (ofTenants.get(tenant) ?? 0) + 1)
    const suspect = current.every(({ lost }) => lost === 0)
    for (;;) {
      try {
        return await store.take(wants, limit, { most: ofOneTenant, running: ofTenants, suspect, onlyPlatform })
      } catch (error) {
        if (!isFailure(error, 'conflict')) throw error
      }
    }
  }

  function launch (job: TakenJob): void {
    const task = tasks.get(job.task)
    if (task === undefined) throw new Error(`the job "${job.task}" is not defined`)
    const controller = new AbortController()
    const done = attempt(task, job, controller).finally(() => {
      running.delete(entry)
      if (running.size === 0) {
        clearInterval(heartbeat)
        heartbeat = undefined
      }
      wake()
    })
    const entry = { job, since: performance.now(), controller, done }
    running.add(entry)
    heartbeat ??= setInterval(beat, beatMs).unref()
  }

  /** Never rejects. */
  async function attempt (task: Task, job: TakenJob, controller: AbortController): Promise<void> {
    const { signal } = controller
    const { id, tenant, data, retries, lost } = job
    const expiry = setTimeout(
      () => controller.abort(new AttemptEnded('expired', `the attempt took longer than ${task.expireIn} s`)),
      task.expireIn * 1000
    ).unref()
    try {
      const handle = lost < maxLost ? task.handler : task.setAside
      await Promise.race([handle?.({ id, tenant, data, attempt: retries + 1, lost, signal }), ended(signal)])
    } catch (error) {
      await settle(() => abandon(job, error))
      return
    } finally {
      clearTimeout(expiry)
    }
    if (job.lost < maxLost) return await settle(() => complete(job))
    log.error(logFieldsOf(job), 'a job failed permanently: it ended two processes')
    await settle(() => store.setAside(job))
  }

  async function abandon (job: TakenJob, error: unknown): Promise<void> {
    const fields = logFieldsOf(job)
    if (error instanceof HandedBack || (error instanceof AttemptEnded && error.why === 'stopped')) return await handBack(job)
    if (error instanceof AttemptEnded && error.why === 'lost') {
      log.warn(fields, 'a job that this process runs was taken from it, or removed')
      return
    }
    await store.fail(job, outputOf(error))
    if (job.retries < job.retryLimit) log.warn({ ...fields, error: traceOf(error) }, 'a job failed and will be retried')
    else log.error({ ...fields, error: traceOf(error) }, 'a job failed permanently')
  }

  /** Writes the end of an attempt, for as long as it takes, so that done work is not repeated. */
  async function settle (write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await write()
        return
      } catch (error) {
        failed(error)
        // Then the job is run again, when this process's hold on it ends.
        if (isUrgent || !isOutage(error)) return
        await sleep(outagePauseMs, undefined, { ref: false })
      }
    }
  }

  async function beat (): Promise<void> {
    if (beating) return
    beating = true
    const held = [...running]
    try {
      const own = await store.renew(held.map(({ job }) => job))
      for (const { job, controller } of held) {
        if (own.get(job.id) !== job.retries) controller.abort(new AttemptEnded('lost', 'the job no longer belongs to this process'))
      }
    } catch (error) {
      failed(error)
    } finally {
      beating = false
    }
  }

  function failed (error: unknown): void {
    reachedAt = Infinity
    poller.failed(error)
  }

  return {
    wake,
    start: poller.start,
    get running (): number {
      return running.size
    },
    /** It has looked for jobs in the last 15 seconds, or has not existed for longer. */
    get working (): boolean {
      return performance.now() - lookedAt < unreachedMs
    },
    /**
     * Takes no more jobs, and waits for running ones until the deadline, in milliseconds of the process's clock; then ends them, and hands
     * them back.
     */
    async stop (deadline: number): Promise<void> {
      draining.abort()
      const finished = async () => {
        await poller.ended()
        await Promise.all(Array.from(running, ({ done }) => done))
      }
      await settlesWithin(finished(), deadline - performance.now())
      isUrgent = true
      for (const { controller } of running) controller.abort(new AttemptEnded('stopped', 'the server is stopping'))
      if (running.size > 0) await settlesWithin(finished(), handingBackMs)
    }
  }
}

/** The last tenant of the jobs, counted from the next one; the database sorts by bytes, and ids are ASCII. */
function lastInTurn (jobs: readonly TakenJob[], from: string): string | undefined {
  let last: string | undefined
  for (const { tenant } of jobs) {
    const [wraps, lastWraps] = [tenant < from, last !== undefined && last < from]
    if (last === undefined || (wraps === lastWraps ? tenant > last : wraps)) last = tenant
  }
  return last
}

/** Each time another one is first. */
function inTurn<Item> (items: readonly Item[], round: number): Item[] {
  const first = round % items.length
  return [...items.slice(first), ...items.slice(0, first)]
}

function logFieldsOf ({ id: job, task, tenant, retries }: TakenJob) {
  return { job, task, tenant, attempt: retries + 1 }
}

function ended (signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
