/** The names of migrations as an empty database gets them. */
import { planSql, recordSql } from '../../lib/database/migrations/plan.js'
import { make } from '../../lib/database/migrations/steps.js'
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

/** SQL that gives an empty database the server's own tables, so that a server that starts on it has none to make. */
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
