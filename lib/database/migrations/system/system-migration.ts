/** A migration of the server's own tables. */
export interface SystemMigration {
  readonly description: string
  /** The tables that it makes, with their schema. */
  readonly tables: readonly string[]
  readonly statements: (options: { policies: boolean }) => readonly string[]
}
