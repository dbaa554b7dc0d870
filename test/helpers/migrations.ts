/** The names of migrations as an empty database gets them. */
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
