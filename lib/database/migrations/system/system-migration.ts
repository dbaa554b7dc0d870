/** A migration of the server's own tables. */
export interface SystemMigration {
  /** In snake_case; the migration's name is its number and this description. */
  readonly description: string
  /** The created tables, with their schema. */
  readonly tables: readonly string[]
  readonly statements: (options: { policies: boolean }) => readonly string[]
}
