/** A migration as it is planned, shown and applied. */

export interface PlannedMigration {
  /** `<nnn>_<description>`: the number that it has if nothing else is applied before. */
  readonly name: string
  readonly kind: 'system' | 'tables'
  readonly statements: readonly string[]
  /** The tables that it makes or changes; those of the server with their schema. */
  readonly tables: readonly string[]
  /** Routes wait for it. Others only harden what works without. */
  readonly required: boolean
}

/** What a database lacks. */
export interface MigrationPlan {
  readonly migrations: readonly PlannedMigration[]
  /** What is declared and left as it is, and what this role may not do. */
  readonly warnings: readonly string[]
  /** Every table that the server or the document needs, and whether it is there. */
  readonly tables: Readonly<Record<string, boolean>>
}
