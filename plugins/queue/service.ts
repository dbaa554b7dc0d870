/** What `app.queue` is. */
import type { Transaction } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { isTenantId } from '../../lib/tenant-id.js'
import { requireWhole } from '../requirement.js'
import type { JobStore } from './store.js'
import type { Queue, SentJob, Task } from './task.js'

const maxDataBytes = 1_048_576
const maxKeyLength = 255
const maxDelay = 31_536_000 // s, a year
const maxPeriod = 86_400 // s; what has ended is kept for longer, so that a slot of time knows its job
const maxPriority = 1000

const taskName = /^[a-z][a-z0-9._-]{0,63}$/

export interface QueueParts {
  readonly engine: Engine
  readonly store: JobStore
  /** Jobs that this process runs at a time. */
  readonly workers: number
  /** A job may have been sent. */
  readonly wake: () => void
}

export interface QueueService extends Queue {
  readonly tasks: ReadonlyMap<string, Task>
  /** Seconds by name. */
  readonly periods: ReadonlyMap<string, number>
  /** No more names from now on. Throws for a period of a name that nobody has defined. */
  seal (): void
  /** Sends a job of the platform, unless the slot of time has one. */
  sendPeriodic (name: string, seconds: number): Promise<void>
}

export function createQueue ({ engine, store, workers, wake }: QueueParts): QueueService {
  const tasks = new Map<string, Task>()
  const periods = new Map<string, number>()
  let sealed = false

  function taskOf (name: string): Task {
    const task = tasks.get(name)
    if (task === undefined) throw new Error(`no job "${name}" is defined: define it before the app is ready`)
    return task
  }

  async function insert (name: string, { tenant, data, key, delay = 0, priority = 0 }: SentJob, slot: number | null, transaction?: Transaction<SystemTables>): Promise<string | null> {
    const { retryLimit, retryDelay } = taskOf(name)
    const job = { tenant, task: name, data: textOf(data), key: key ?? null, delay: Math.ceil(delay * 1000) / 1000, priority, retryLimit, retryDelay, slot }
    if (transaction === undefined) {
      // The platform is always there: nothing has to be held while its job is written.
      const id = tenant === '' ? await store.send(engine.kysely, job) : await engine.kyselyFor(tenant).transaction().execute((own) => store.send(own, job))
      wake()
      return id
    }
    const id = await store.send(transaction, job)
    // The embedded engine has one connection: what it is asked for now it is asked for after the transaction. On
    // PostgreSQL the commit notifies.
    if (engine.kind === 'embedded') wake()
    return id
  }

  return {
    tasks,
    periods,

    define (name, { retryLimit = 3, retryDelay = 10, expireIn = 900, concurrency = Math.max(workers, 1) }, handler) {
      if (sealed) throw new Error(`the job "${name}" is defined too late: define it before the app is ready`)
      if (!taskName.test(name)) throw new Error(`"${name}" is no name of a job: expected 1 to 64 of \`a-z 0-9 . _ -\`, a letter first`)
      if (tasks.has(name)) throw new Error(`the job "${name}" is defined twice`)
      requireWhole('retryLimit', retryLimit, 0, 100)
      requireWhole('retryDelay', retryDelay, 0, 86_400)
      requireWhole('expireIn', expireIn, 1, 86_400)
      requireWhole('concurrency', concurrency, 1, 100)
      tasks.set(name, { name, retryLimit, retryDelay, expireIn, concurrency, handler })
    },

    async send (name, job, transaction) {
      const { tenant, key, delay = 0, priority = 0 } = job
      if (tenant !== '' && !isTenantId(tenant)) throw new Error('not the id of a tenant')
      if (key !== undefined && (key.length === 0 || key.length > maxKeyLength)) throw new Error(`the key of a job has 1 to ${maxKeyLength} characters`)
      if (!(delay >= 0 && delay <= maxDelay)) throw new Error(`delay is ${delay}: expected seconds, from 0 to ${maxDelay}`)
      requireWhole('priority', priority, -maxPriority, maxPriority)
      return await insert(name, job, null, transaction)
    },

    every (name, seconds) {
      if (sealed) throw new Error(`the period of the job "${name}" is said too late: say it before the app is ready`)
      if (periods.has(name)) throw new Error(`the job "${name}" has two periods`)
      requireWhole('seconds', seconds, 1, maxPeriod)
      periods.set(name, seconds)
    },

    seal () {
      sealed = true
      for (const name of periods.keys()) taskOf(name)
    },

    async sendPeriodic (name, seconds) {
      await insert(name, { tenant: '', data: {}, key: 'every' }, seconds)
    }
  }
}

/** The data as JSON. */
function textOf (data: object): string {
  const text = JSON.stringify(data)
  if (typeof text !== 'string' || text[0] !== '{') throw new Error('the data of a job is an object that JSON can hold')
  const bytes = Buffer.byteLength(text)
  if (bytes > maxDataBytes) throw new Error(`the data of a job has ${bytes} bytes: at most ${maxDataBytes}`)
  return text
}
