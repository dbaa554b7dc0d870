/** Names of migrations in the order in which an empty database gets them. */
import { planSql, recordSql } from '../../lib/database/migrations/plan.js'
import { make } from '../../lib/database/migrations/steps.js'
import { systemMigrations } from '../../lib/database/migrations/system/index.js'

/** The migrations of the server's own tables, in order. */
export const systemNames: readonly string[] = systemMigrations.map(({ description }, index) => numbered(index + 1, description))

/** The name of a migration after the server's own: the first, or a later one. */
export function nameAfterSystem (description: string, place = 1): string {
  return numbered(systemNames.length + place, description)
}

function numbered (number: number, description: string): string {
  return `${String(number).padStart(3, '0')}_${description}`
}

/** SQL that creates the server's own tables in an empty database, so that a server that starts on it has no migration to run. */
export const systemSql: string = planSql({
  migrations: systemMigrations.map(({ description, tables, statements }, index) => {
    const name = numbered(index + 1, description)
    return {
      name,
      kind: 'system',
      tables,
      steps: make([...statements({ policies: true }), recordSql({ name, kind: 'system' })]),
      required: true
    }
  })
})
