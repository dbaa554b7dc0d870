/** A migration of the server's own tables. */
export interface SystemMigration {
  /** In snake_case: with its number it is the name of the migration. */
  readonly description: string
  /** The tables that it makes, with their schema. */
  readonly tables: readonly string[]
  readonly statements: (options: { policies: boolean }) => readonly string[]
}
