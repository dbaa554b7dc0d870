/** A migration: planned, printed and applied. */
import type { MigrationStep } from './steps.js'

export interface PlannedMigration {
  /** `<nnn>_<description>`: its number if no other migration is applied first. */
  readonly name: string
  readonly kind: 'system' | 'tables'
  /** In order; the last one records the migration as applied. */
  readonly steps: readonly MigrationStep[]
  /** The tables that it creates or changes; the server's own tables with their schema. */
  readonly tables: readonly string[]
  /** Whether routes wait for it. Other migrations only harden a working database. */
  readonly required: boolean
  /** Effects on the application's own objects, for the log. Default: none. */
  readonly notes?: readonly string[]
}

export interface MigrationPlan {
  readonly migrations: readonly PlannedMigration[]
  /** Declarations that the migrations do not apply, statements that this role may not run, and the migrations' notes. */
  readonly warnings: readonly string[]
  /** Every table that the server or the document needs, and whether it exists. */
  readonly tables: Readonly<Record<string, boolean>>
}

export interface MigrationProgress {
  readonly migration: string
  /** Counted from 1; 0 before the first one. */
  readonly step: number
  readonly of: number
  /** The existing table that the step changes. */
  readonly table: string | undefined
  /**
   * - `queued`: another server migrates the database, and the migration waits for it
   * - `waiting`: another session holds a lock, and the step is tried again
   */
  readonly state: 'queued' | 'started' | 'waiting' | 'done'
  /** The process of PostgreSQL that serves the other server, for `queued`. */
  readonly holder?: number | undefined
}
