/** The requirements on a table for work on its rows, and the refusals. */
import { type Catalogue, keyColumns, type Table } from '../../lib/database/catalogue.js'
import { softDeleteColumns } from '../../lib/database/declared-tables.js'
import { ColumnsError } from '../../lib/database/failures.js'
import { columnsProposal } from '../../lib/database/migrations/proposal.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { meant } from '../../lib/schema/faults.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { isSeen, type Reach } from './reach.js'

/** The table of that name. Throws the same `notFound` for a missing table and one that the caller may not see. */
export function tableOf ({ tables }: Catalogue, name: string, reach: Reach): Table {
  const table = tables.get(name)
  if (table !== undefined && isSeen(table, reach)) return table
  const seen = [...tables.values()].filter((other) => isSeen(other, reach))
  throw failure('notFound', { message: `There is no table with this name${meant(name, seen.map(({ name }) => name))}` })
}

/** The single column that identifies rows within a tenant; throws `validationFailed` for a table without one. */
export function keyOf (table: Table): string {
  const [key, ...others] = keyColumns(table)
  if (key === undefined) {
    throw invalidInput('/params/id', `the rows of "${table.name}" have no primary key: list them with filters`, 'pattern')
  }
  if (others.length > 0) {
    throw invalidInput(
      '/params/id',
      `the primary key of "${table.name}" has ${others.length + 1} columns, ${[key, ...others].join(', ')}: list its rows with filters`,
      'pattern'
    )
  }
  return key
}

/** Throws for views and other relations without their own rows. */
export function requireWritable ({ name, view }: Table): void {
  if (view) throw invalidInput('/params/table', `"${name}" is a view: its rows can only be read`, 'readOnly')
}

/** Throws `stateConflict`, with its remedy, for a table whose rows cannot be marked as deleted; `otherwise` names an alternative. */
export function requireSoftDelete (schema: string, table: Table, otherwise = ''): void {
  if (table.softDelete) return
  const missing = Object.entries(softDeleteColumns).filter(([name]) => !table.columns.has(name))
  const refusal = `Rows of "${table.name}" cannot be marked as deleted:`
  if (missing.length === 0) {
    throw failure('stateConflict', {
      message: `${refusal} its columns are not "deleted" (boolean) and "deleted_at" (timestamptz)${otherwise}`
    })
  }
  throw failure('stateConflict', {
    message: `${refusal} it lacks ${
      missing.map(([name, { type }]) => `"${name}" (${type})`).join(' and ')
    }. Declare it with "softDelete": true and migrate (tenantry migrate, or POST /migration/apply), or run the SQL in \`sql\`${otherwise}`,
    extras: { sql: columnsProposal(schema, table, softDeleteColumns) }
  })
}

/** The error of a delete that a foreign key forbids. It names the referring table if the caller may see it. Returns other errors. */
export function refused (error: unknown, { tables }: Catalogue, reach: Reach): unknown {
  if (!(error instanceof ColumnsError)) return error
  const table = tables.get(error.table)
  // A table outside the catalogue is a partition, or of another schema.
  if (table === undefined ? reach === 'tenant' : !isSeen(table, reach)) {
    return failure('stateConflict', { message: 'Rows of another table refer to it', cause: error })
  }
  const columns = columnsOf(error)
  return failure('stateConflict', {
    message: `Rows of "${error.table}" refer to it${columns.length > 0 ? ` by ${columns.join(', ')}` : ''}: delete or change those first`,
    extras: { table: error.table, columns },
    cause: error
  })
}

function columnsOf ({ extras: { details } }: TenantryError): string[] {
  const found: unknown[] = Array.isArray(details) ? details : []
  // A column that the caller did not send has its name.
  return found.flatMap((detail) => isRecord(detail) && typeof detail['path'] === 'string' ? [detail['path'].slice(1)] : [])
}
