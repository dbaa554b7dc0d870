export interface MigrationProgress {
  readonly migration: string
  /** Counted from 1. */
  readonly step: number
  readonly of: number
  /** The existing table that the step changes. */
  readonly table: string | undefined
  /** `waiting`: another session holds a lock, and the step is tried again. */
  readonly state: 'started' | 'waiting' | 'done'
}
