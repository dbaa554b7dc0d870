/** Jobs and their handlers: the contract of `app.queue`. */
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

export interface Job {
  readonly id: string
  /** The tenant of the job; empty for the platform. */
  readonly tenant: Owner
  readonly data: Readonly<Record<string, unknown>>
  /** 1 for the first. */
  readonly attempt: number
  /** Processes that ended while they ran it, since its last progress. */
  readonly lost: number
  /**
   * Aborts when the attempt is over while the handler runs: it exceeded `expireIn`, the server stops, or another process has the job. Later
   * results of the handler are ignored, and it should end.
   */
  readonly signal: AbortSignal
}

/**
 * Does the job. An error, or the end of the process, is followed by another attempt; after the second end of a process the job is set aside
 * as failed. A handler may run more than once for one job, and in rare cases (a process without contact to the database for a while) twice
 * at a time.
 */
export type Handler = (job: Job) => Promise<void>

/** A handler rejects with it to continue later: the job waits for its tenant's next turn, and the attempt does not count. */
export class HandedBack extends Error {
  override readonly name = 'JobHandedBack'
}

export interface TaskOptions {
  /** The number of retries, 0 to 100. Default: 3. */
  readonly retryLimit?: number | undefined
  /** Seconds before the first retry, 0 to 86,400; each further delay doubles, with up to as much again at random. Default: 10. */
  readonly retryDelay?: number | undefined
  /** Seconds that an attempt may take, 1 to 86,400. Default: 900. */
  readonly expireIn?: number | undefined
  /** Jobs of the name that this process runs at a time, long ones included, 1 to 100. Default: no limit of its own. */
  readonly concurrency?: number | undefined
  /**
   * Called instead of the handler after two processes ended while they ran the job: it records the failure elsewhere, without the handler's
   * work. Then the job is set aside. Without it that happens at once.
   */
  readonly setAside?: Handler | undefined
  /** Other endpoints start and end its jobs: their names, for administrators who try to send or cancel a single job. */
  readonly endpoints?: string | undefined
}

export interface SentJob {
  /** The tenant of the job; empty for the platform. */
  readonly tenant: string
  /** A value that JSON can represent; 1 MiB at most. */
  readonly data: object
  /**
   * 1 to 255 characters. A tenant has at most one waiting and one running job of the same name and key. A job that waits for a retry does
   * not count as waiting.
   */
  readonly key?: string | undefined
  /** Seconds before it is run, up to a year. */
  readonly delay?: number | undefined
  /** -1000 to 1000: a tenant's jobs of one name run in this order, the highest first. Default: 0. */
  readonly priority?: number | undefined
}

/** An inserted job, and its row. */
export interface SentRow<Row> {
  /** The id of the job. */
  readonly id: string
  readonly tenant: Owner
  readonly row: Row
}

/** Writes the rows of the jobs, in the transaction that sends them, with jobs of several tenants; a rejection sends none of them. */
export type WriteRows<Row> = (transaction: SystemTransaction, sent: ReadonlyArray<SentRow<Row>>) => Promise<void>

/** Sends a job with its row; `bytes` is the row's memory until both are written. Otherwise like `send`. */
export type SendWith<Row> = (job: SentJob, row: Row, bytes: number) => Promise<string | null>

/** The state of the queue in this process. */
export interface QueueStatus {
  /** Jobs of up to 30 seconds that it runs at a time; 0 if it only sends them, or none are defined. */
  readonly workers: number
  /** Jobs that it runs, long ones included: up to four times `workers`. */
  readonly running: number
  /** false if its workers could not look for jobs for 15 seconds. */
  readonly working: boolean
}

export interface Queue {
  /** The defined names. */
  names(): string[]
  /** Known at once, without the database. */
  status(): QueueStatus
  /** The endpoints that send and cancel jobs of the name in place of those of the queue; undefined without any. */
  endpointsOf(name: string): string | undefined
  /** Defines the handler of a name's jobs; before the app is ready. A name is 1 to 64 of `a-z 0-9 . _ -`, a letter first. */
  define(name: string, options: TaskOptions, handler: Handler): void
  /**
   * Resolves with the id of the job, or null if one of the key waits already. It is durable once the transaction is committed; without one
   * it shares a transaction with other jobs of that time. Rejects with `tenantUnknown` if the tenant does not exist or is being deleted,
   * and with `queueFull` if too many of its jobs wait.
   */
  send(name: string, job: SentJob, transaction?: SystemTransaction): Promise<string | null>
  /**
   * Jobs of a name that each have a row: concurrent ones are written, with their rows, in one transaction. A failing one is tried again
   * separately: `write` may run more than once for a row, and must only write in its transaction.
   */
  sendWith<Row>(name: string, write: WriteRows<Row>): SendWith<Row>
  /**
   * Sends a job of the platform, without data, at an interval of 1 to 86,400 seconds: one for all processes of a database. None is sent
   * while the last one waits, and none begins while one runs.
   */
  every(name: string, seconds: number): void
}

export interface Task {
  readonly name: string
  readonly retryLimit: number
  readonly retryDelay: number
  readonly expireIn: number
  /** `Infinity` without a limit of its own. */
  readonly concurrency: number
  readonly endpoints: string | undefined
  readonly setAside: Handler | undefined
  readonly handler: Handler
}
