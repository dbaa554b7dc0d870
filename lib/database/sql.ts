/** Names and literals in SQL text, for migrations, which cannot have parameters. */
import type { Owner } from '../identity/tenant-ref.js'
import { sql } from 'kysely'

export function identifier (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Several quoted identifiers, separated by commas. */
export function identifiers (names: readonly string[]): string {
  return names.map(identifier).join(', ')
}

export function literal (text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? `E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** The column `tenant_id` of a system table, for a select list. */
export const tenantColumn = sql<Owner>`tenant_id`.as('tenant')
