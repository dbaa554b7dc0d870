/** `app.queue`: background jobs. */
import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { isTenantId, type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isStorableJson } from '../../lib/json/storable.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { callback, checkOptions, type OptionChecks, text, whole } from '../../lib/plugin/options.js'
import type { BacklogLimit } from './backlog-limit.js'
import { type Batches, createBatches, type Item } from './batches.js'
import { insertJobs, type NewJob, type Outcome } from './insert.js'
import type { Queue, SendWith, SentJob, Task, TaskOptions, WriteRows } from './types.js'

export const maxDataBytes = 1_048_576
export const maxKeyLength = 255
export const maxDelay = 31_536_000 // s, a year
const maxPeriod = 86_400 // s; ended jobs are kept for longer, so that a slot of time knows its job
export const maxPriority = 1000

const taskOptions: OptionChecks<TaskOptions> = {
  retryLimit: whole(0, 100),
  retryDelay: whole(0, 86_400),
  expireIn: whole(1, 86_400),
  concurrency: whole(1, 100),
  setAside: callback,
  endpoints: text
}

const taskName = /^[a-z][a-z0-9._-]{0,63}$/

export interface QueueParts {
  readonly engine: Engine
  readonly backlog: BacklogLimit
  /** Wakes the workers of this process, since jobs may have been sent. */
  readonly wake: () => void
  /** Notifies other processes of a job that was sent outside of a caller's transaction. The commit of such a transaction notifies them. */
  readonly notify: () => void
}

export interface QueueService extends Omit<Queue, 'status'> {
  readonly tasks: ReadonlyMap<string, Task>
  /** Seconds by name. */
  readonly periods: ReadonlyMap<string, number>
  /** Refuses further names and periods. Throws for a period of an undefined name. */
  seal(): void
  /** Sends a job of the platform, unless the slot of time has one. */
  sendPeriodic(name: string, seconds: number): Promise<void>
}

export function createQueue ({ engine, backlog, wake, notify }: QueueParts): QueueService {
  const tasks = new Map<string, Task>()
  const periods = new Map<string, number>()
  let sealed = false
  const batches = createBatches<Item>((items, tenant) => insertBatch(dbOf(tenant), items, tenant))

  function taskOf (name: string): Task {
    const task = tasks.get(name)
    if (task === undefined) throw new Error(`the job "${name}" is not defined: define it before the app is ready`)
    return task
  }

  /** The connection of a batch: the server's turn for jobs of several tenants, a tenant's own for its jobs. */
  function dbOf (tenant: Owner | undefined): Kysely<SystemTables> {
    return tenant === undefined || tenant === platformRef ? engine.kysely : engine.kyselyFor(tenant)
  }

  function createJob (name: string, { tenant, data, key, delay = 0, priority = 0 }: SentJob, slot: number | null = null): NewJob {
    const { retryLimit, retryDelay } = taskOf(name)
    if (tenant !== platformRef && !isTenantId(tenant)) {
      throw new Error(`the job "${name}" has no valid \`tenant\`: expected the id of a tenant, or '' for the platform`)
    }
    if (key !== undefined && (key.length === 0 || key.length > maxKeyLength)) {
      throw new Error(`the key of a job must have 1 to ${maxKeyLength} characters`)
    }
    if (!(delay >= 0 && delay <= maxDelay)) throw new Error(`delay is ${delay}: expected seconds, from 0 to ${maxDelay}`)
    requireWhole('priority', priority, -maxPriority, maxPriority)
    return {
      id: randomUUID(),
      tenant: tenantRef(tenant),
      task: name,
      data: textOf(data),
      key: key ?? null,
      delay: Math.ceil(delay * 1000) / 1000,
      priority,
      retryLimit,
      retryDelay,
      slot
    }
  }

  /**
   * Writes the job with others. A job with a key or a slot is written alone: its insert may wait for an uncommitted job with the same key,
   * and must not delay other jobs.
   */
  async function batched<Of extends Item> (through: Batches<Of>, item: Of): Promise<string | null> {
    const { job } = item
    const outcome = await (job.key === null && job.slot === null ? through.add(item) : through.alone(item))
    if (outcome === 'sent') {
      wake()
      notify()
    }
    return idOf(job, outcome)
  }

  return {
    tasks,
    periods,
    names: () => [...tasks.keys()],
    endpointsOf: (name) => tasks.get(name)?.endpoints,

    define (name, options, handler) {
      if (sealed) throw new Error(`the job "${name}" is defined too late: define it before the app is ready`)
      if (!taskName.test(name)) throw new Error(`invalid job name "${name}": expected 1 to 64 of \`a-z 0-9 . _ -\`, a letter first`)
      if (tasks.has(name)) throw new Error(`the job "${name}" is already defined: define each job of a queue once`)
      if (typeof handler !== 'function') throw new Error(`the job "${name}" has no handler: expected define(name, options, handler)`)
      checkOptions(`the job "${name}"`, taskOptions, options, false)
      const { retryLimit = 3, retryDelay = 10, expireIn = 900, concurrency, endpoints, setAside } = options
      tasks.set(name, { name, retryLimit, retryDelay, expireIn, concurrency: concurrency ?? Infinity, endpoints, setAside, handler })
    },

    async send (name, sent, transaction) {
      const job = createJob(name, sent)
      await backlog.take(job.tenant, transaction)
      if (transaction === undefined) return await batched(batches, { job, bytes: job.data.length })
      const [outcome = 'unknown'] = await insertJobs(transaction, [job], engine.kind === 'postgres' ? 'notifying' : 'waiting')
      // The embedded engine has one connection: later queries run after the transaction. On PostgreSQL the commit notifies.
      if (engine.kind === 'embedded') wake()
      return idOf(job, outcome)
    },

    sendWith<Row> (name: string, write: WriteRows<Row>): SendWith<Row> {
      const own = createBatches<Item & { readonly row: Row }>((items, tenant) =>
        dbOf(tenant).transaction().execute(async (transaction) => {
          const outcomes = await insertBatch(transaction, items, tenant)
          const written = items.filter((_, index) => outcomes[index] === 'sent').map(({ job: { id, tenant }, row }) => ({ id, tenant, row }))
          if (written.length > 0) await write(transaction, written)
          return outcomes
        })
      )
      return async (sent, row, bytes) => {
        const job = createJob(name, sent)
        await backlog.take(job.tenant)
        return await batched(own, { job, row, bytes: job.data.length + bytes })
      }
    },

    every (name, seconds) {
      if (sealed) throw new Error(`the period of the job "${name}" is set too late: set it before the app is ready`)
      if (periods.has(name)) throw new Error(`the job "${name}" already has a period`)
      requireWhole('seconds', seconds, 1, maxPeriod)
      periods.set(name, seconds)
    },

    seal () {
      sealed = true
      for (const name of periods.keys()) taskOf(name)
    },

    async sendPeriodic (name, seconds) {
      const job = createJob(name, { tenant: platformRef, data: {}, key: 'every' }, seconds)
      await batched(batches, { job, bytes: job.data.length })
    }
  }
}

/**
 * @param tenant the tenant of all jobs; the insert then waits for a transaction that holds the tenant. undefined: jobs of several tenants,
 * whose insert does not wait
 */
function insertBatch (db: Kysely<SystemTables>, items: readonly Item[], tenant: Owner | undefined): Promise<Outcome[]> {
  return insertJobs(db, items.map(({ job }) => job), tenant === undefined ? 'inPassing' : 'waiting')
}

/** The id of a sent job; null if its key or slot already has a job. Throws `tenantUnknown`. */
function idOf ({ id }: NewJob, outcome: Outcome): string | null {
  if (outcome === 'unknown') throw failure('tenantUnknown')
  return outcome === 'sent' ? id : null
}

/** The data as JSON. */
function textOf (data: object): string {
  const text = stringifyJson(data)
  if (typeof text !== 'string' || text[0] !== '{') throw new Error('the data of a job must be a JSON object')
  const bytes = Buffer.byteLength(text)
  if (bytes > maxDataBytes) throw new Error(`the data of a job has ${bytes} bytes: the maximum is ${maxDataBytes}`)
  if (!isStorableJson(text)) {
    throw failure('invalidValue', {
      message: 'The data of a job contains the character 0 or half of a surrogate pair, which the database cannot store'
    })
  }
  return text
}

/** Throws if an option is not a whole number within its bounds; `option` is its name for the caller. */
function requireWhole (option: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new Error(`${option} is ${value}: expected a whole number from ${least} to ${most}`)
  }
}
