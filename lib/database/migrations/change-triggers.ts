/** The triggers that record changes of watched tables, in the transaction of the write. */
import { hash } from 'node:crypto'
import { keyColumns, type Table } from '../catalogue.js'
import { identifier, literal, qualified } from '../sql.js'

/** The watched tables, by name: whether writes of other programs are recorded too. */
export type WatchedTables = Readonly<Record<string, { readonly trigger?: true | undefined }>>

/** The function that the triggers call (system/realtime-triggers.ts). */
export const recordFunction = 'tenantry.record_row'
export const triggerName = 'tenantry_changes'

/** The number of gates (system/realtime-triggers.ts). Tables share them. */
export const gateCount = 16
export const gateName = (number: number): string => `tenantry.realtime_gate_${number}`

/** SQL for a row `c` of `pg_class`: the comment on its trigger, with its parameters; null without one. */
export const changeTriggerSql =
  `(select coalesce(obj_description(g.oid, 'pg_trigger'), '') from pg_trigger g where g.tgrelid = c.oid and g.tgname = ${literal(triggerName)})`

/** A table can be watched if it has a tenant and a key. */
export function isWatchable ({ tenantScoped, view, primaryKey }: Table): boolean {
  return tenantScoped && !view && primaryKey.length > 0
}

/**
 * The statements that create the table's trigger; empty if it exists.
 *
 * @param schema    of the table
 * @param existing  the comment on its trigger; null without one
 */
export function triggerStatements (
  schema: string,
  { name, primaryKey }: Pick<Table, 'name' | 'primaryKey'>,
  always: boolean,
  existing: string | null
): string[] {
  const quoted = qualified(schema, name)
  const keys = keyColumns({ primaryKey })
  const gate = gateOf(name)
  const made = `${always ? 'all writes' : 'writes of this server'} while ${gate} is open, by ${keys.map(identifier).join(', ')}`
  if (existing === made) return []
  // Triggers of partitions have these arguments too.
  const given = [name, always ? 'all' : 'own', ...keys].map(literal).join(', ')
  return [
    ...existing === null ? [] : [`drop trigger ${identifier(triggerName)} on ${quoted}`],
    // null: the writer cannot read the gate.
    `create trigger ${identifier(triggerName)} after insert or update or delete on ${quoted} for each row when (pg_sequence_last_value(${
      literal(gate)
    }::regclass) is distinct from 0) execute function ${recordFunction}(${given})`,
    `comment on trigger ${identifier(triggerName)} on ${quoted} is ${literal(made)}`
  ]
}

/** The gate that the table's trigger reads, as in `tenantry.realtime_gate`. */
function gateOf (table: string): string {
  return gateName((hash('sha256', table, 'buffer')[0] ?? 0) & (gateCount - 1))
}
