/** Jobs and their handlers: the contract of `app.queue`. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Transaction } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'

export interface Job {
  readonly id: string
  /** Whose job it is; empty for the platform. */
  readonly tenant: Owner
  readonly data: Readonly<Record<string, unknown>>
  /** 1 for the first. */
  readonly attempt: number
  /** Processes that ended while they ran it, since it last made progress. */
  readonly lost: number
  /**
   * Aborted when the attempt is over although the handler runs: it took longer than `expireIn`, the server stops, or
   * another process has the job. What the handler does from then on counts for nothing, and it should end.
   */
  readonly signal: AbortSignal
}

/**
 * Does the job. An error, or the end of the process, is followed by another attempt; after the second end of a process the
 * job is set aside as failed. A handler may run more than once for one
 * job, and in rare cases (a process that the database did not hear of for a while) twice at a time.
 */
export type Handler = (job: Job) => Promise<void>

/** What a handler rejects with whose job is to go on later: it waits for its tenant's next turn, and the attempt does not count. */
export class HandedBack extends Error {
  override readonly name = 'JobHandedBack'
}

export interface TaskOptions {
  /** How often it is tried again after the first time, 0 to 100. Default: 3. */
  readonly retryLimit?: number | undefined
  /** Seconds before it is tried again, 0 to 86,400; each further time twice as long, and up to double at random. Default: 10. */
  readonly retryDelay?: number | undefined
  /** Seconds that an attempt may take, 1 to 86,400. Default: 900. */
  readonly expireIn?: number | undefined
  /** Jobs of the name that this process runs at a time, 1 to 100. Default: as many as the process runs of all. */
  readonly concurrency?: number | undefined
  /**
   * Called instead of the handler, where two processes ended while they ran the job: writes elsewhere that the job has failed.
   * It must not do what the handler does. Then the job is set aside. Without it that happens at once.
   */
  readonly setAside?: Handler | undefined
  /** Its jobs are part of what other endpoints start and end: which ones, for administrators who would send or cancel a job alone. */
  readonly endpoints?: string | undefined
}

export interface SentJob {
  /** Whose job it is; empty for the platform. */
  readonly tenant: string
  /** What JSON can hold; 1 MiB at most. */
  readonly data: object
  /**
   * 1 to 255 characters. Of a tenant's jobs of one name and key one waits at a time, and one runs at a time. A job that
   * waits for another attempt is not counted: a new one may wait beside it.
   */
  readonly key?: string | undefined
  /** Seconds before it is run, up to a year. */
  readonly delay?: number | undefined
  /** -1000 to 1000: of a tenant's jobs of one name the highest come first. Default: 0. */
  readonly priority?: number | undefined
}

/** A job that was inserted, and what is written with it. */
export interface SentRow<Row> {
  /** Of the job. */
  readonly id: string
  readonly tenant: Owner
  readonly row: Row
}

/**
 * Writes what belongs with the jobs, in the transaction that they are sent in, which has jobs of several tenants; a rejection
 * sends none of them.
 */
export type WriteRows<Row> = (transaction: Transaction<SystemTables>, sent: ReadonlyArray<SentRow<Row>>) => Promise<void>

/** Sends a job with its row; `bytes` is what is kept of the row until both are written. As `send` but for that. */
export type SendWith<Row> = (job: SentJob, row: Row, bytes: number) => Promise<string | null>

/** What this process does of the queue's work. */
export interface QueueStatus {
  /** Jobs that it runs at a time; 0 where it only sends them, or none are defined. */
  readonly workers: number
  /** Jobs that it runs. */
  readonly running: number
  /** false where its workers have not been able to look for jobs for 15 seconds. */
  readonly working: boolean
}

export interface Queue {
  /** The names that are defined. */
  names(): string[]
  /** Known at once: the database is not asked. */
  status(): QueueStatus
  /** The endpoints that jobs of the name are sent and canceled by in place of those of the queue; undefined where there are none. */
  endpointsOf(name: string): string | undefined
  /** Says who handles the jobs of a name; before the app is ready. A name is 1 to 64 of `a-z 0-9 . _ -`, a letter first. */
  define(name: string, options: TaskOptions, handler: Handler): void
  /**
   * Resolves with the id of the job, or null where one of the key waits already. It is durable once the transaction is
   * committed; without one it has its own, with other jobs that are sent at the time. Rejects with `tenantUnknown` where the
   * tenant is not there or is being deleted, and with `queueFull` where too many of its jobs wait.
   */
  send(name: string, job: SentJob, transaction?: Transaction<SystemTables>): Promise<string | null>
  /**
   * Jobs of a name that each have a row of their own: many that are sent at a time are written, with their rows, in one
   * transaction. What of one of them fails is tried again by itself: `write` may run more than once for a row, and must do
   * nothing but write in its transaction.
   */
  sendWith<Row>(name: string, write: WriteRows<Row>): SendWith<Row>
  /**
   * Sends a job of the platform, without data, at a pace of 1 to 86,400 seconds: one for all processes of a database. None
   * is sent while the last one waits, and none begins while one runs.
   */
  every(name: string, seconds: number): void
}

/** A name that was defined. */
export interface Task {
  readonly name: string
  readonly retryLimit: number
  readonly retryDelay: number
  readonly expireIn: number
  readonly concurrency: number
  readonly endpoints: string | undefined
  readonly setAside: Handler | undefined
  readonly handler: Handler
}
