/** The types that a column `tenant_id` can have, and the ids of tenants that its values can be. */
import { type Column, type Table, tenantColumn } from '../database/catalogue.js'
import { failure, type TenantryError } from '../errors.js'
import { isUuid } from '../identity/uuid.js'

/**
 * A type that reads several texts as one value, as `07` and `7`. Ids of tenants are texts: an id belongs to such a column only if
 * PostgreSQL prints it in the same form.
 */
export interface PrintedType {
  readonly prints: (id: string) => boolean
  /** For messages. */
  readonly description: string
}

/** The types besides texts, as `format_type` prints them. */
export const printedTypes: ReadonlyMap<string, PrintedType> = new Map([
  ['uuid', { prints: isUuid, description: 'a UUID in lower case with hyphens' }],
  ['smallint', integerOf(16)],
  ['integer', integerOf(32)],
  ['bigint', integerOf(64)]
])

const textTypes: ReadonlySet<string> = new Set(['text', 'character varying'])

function integerOf (bits: number): PrintedType {
  return {
    prints: (id) => /^(?:0|-?[1-9]\d{0,18})$/.test(id) && BigInt.asIntN(bits, BigInt(id)) === BigInt(id),
    description: `an integer of ${bits} bits without leading zeros`
  }
}

/** The reason why no query can use the table: its column `tenant_id` does not keep the ids of tenants apart. Otherwise undefined. */
export function tenantTypeFault (table: Table): string | undefined {
  const column = table.tenantScoped ? table.columns.get(tenantColumn) : undefined
  if (column === undefined || keepsIdsApart(column)) return undefined
  const found = textTypes.has(column.type) ? 'has a nondeterministic collation' : `has the type ${column.type}`
  return `the column "tenant_id" of "${table.name}" ${found}: expected text or varchar with a deterministic collation, uuid, smallint, integer or bigint`
}

function keepsIdsApart ({ type, nondeterministic }: Column): boolean {
  return printedTypes.has(type) || (textTypes.has(type) && nondeterministic !== true)
}

/** Throws `tenantInvalid` for an id that no row of the table can have. */
export function checkTenantId ({ columns }: Pick<Table, 'columns'>, id: string): void {
  const expected = expectedTenantId(columns.get(tenantColumn), id)
  if (expected !== undefined) throw unfitTenant(expected)
}

/** The form of the column's ids, if the given id has another form; otherwise undefined. */
export function expectedTenantId (column: Pick<Column, 'type'> | undefined, id: string): string | undefined {
  const printed = column === undefined ? undefined : printedTypes.get(column.type)
  return printed === undefined || printed.prints(id) ? undefined : printed.description
}

export function unfitTenant (expected: string): TenantryError {
  return failure('tenantInvalid', {
    message: `The id of the tenant does not fit the table, whose column "tenant_id" requires ${expected}`
  })
}
