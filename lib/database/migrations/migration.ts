/** A migration as it is planned, printed and applied. */
import type { MigrationStep } from './steps.js'

export interface PlannedMigration {
  /** `<nnn>_<description>`: the number that it gets if no other migration is applied first. */
  readonly name: string
  readonly kind: 'system' | 'tables'
  /** In order; the last one records the migration as applied. */
  readonly steps: readonly MigrationStep[]
  /** The tables that it makes or changes; those of the server with their schema. */
  readonly tables: readonly string[]
  /** Routes wait for it. Others only harden what works without. */
  readonly required: boolean
}

/** What a database lacks. */
export interface MigrationPlan {
  readonly migrations: readonly PlannedMigration[]
  /** Declarations that the migrations leave unapplied, and statements that this role may not run. */
  readonly warnings: readonly string[]
  /** Every table that the server or the document needs, and whether it exists. */
  readonly tables: Readonly<Record<string, boolean>>
}
