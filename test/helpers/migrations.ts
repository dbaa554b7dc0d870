/** The names of migrations as an empty database gets them. */
import { planSql } from '../../lib/database/migrations/plan.js'
import { systemMigrations } from '../../lib/database/migrations/system/index.js'

/** Those of the server's own tables, in order. */
export const systemNames: readonly string[] = systemMigrations.map(({ description }, index) => numbered(index + 1, description))

/** One that comes after the server's own, the first of those or a later one. */
export function nameAfterSystem (description: string, place = 1): string {
  return numbered(systemNames.length + place, description)
}

function numbered (number: number, description: string): string {
  return `${String(number).padStart(3, '0')}_${description}`
}

/** SQL that an empty database has the server's own tables by, so that a server that starts on it has nothing to make. */
export const systemSql: string = planSql({
  migrations: systemMigrations.map(({ description, tables, statements }, index) => ({
    name: numbered(index + 1, description), kind: 'system', tables, statements: statements({ policies: true }), required: true
  })),
  warnings: [],
  tables: {}
})
