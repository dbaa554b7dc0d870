/** Checks of the section `realtime` beyond its schema: its patterns of rooms, its tables, and the address of Redis. */
import type { Catalogue } from '../../database/catalogue.js'
import { isWatchable } from '../../database/migrations/change-triggers.js'
import { tenantTypeFault } from '../../queries/tenant-types.js'
import { type FaultList, nearest, pointerTo } from '../../schema/faults.js'
import type { Realtime } from '../../schema/realtime.js'
import { checkRedisUrl } from './sections.js'

/** A name of a room, or the beginning of names with `*` at its end. */
const roomPattern = /^[\w.:@/-]{0,127}(?:[\w.:@/-]|\*)$/

const maxTables = 200
const maxRooms = 200

export function checkRealtime ({ tables = {}, rooms = {}, redis }: Realtime, faults: FaultList): void {
  const names = Object.keys(tables)
  if (names.length > maxTables) faults.add('/realtime/tables', `has ${names.length} tables: expected at most ${maxTables}`)
  const patterns = Object.keys(rooms)
  if (patterns.length > maxRooms) faults.add('/realtime/rooms', `has ${patterns.length} patterns: expected at most ${maxRooms}`)
  for (const pattern of patterns) {
    if (!roomPattern.test(pattern)) {
      faults.add(
        pointerTo('/realtime/rooms', pattern),
        'is not a valid room name: expected 1 to 128 of A-Z a-z 0-9 _ . : @ / -, with `*` at the end for all rooms with this prefix'
      )
    }
  }
  checkRedisUrl(redis, '/realtime/redis', faults)
}

/** Checks the tables against those of the catalogue. A partial catalogue says nothing about other tables. */
export function checkWatchedTables ({ tables = {} }: Realtime, catalogue: Catalogue, faults: FaultList): void {
  for (const [name, { excludeFields = [] }] of Object.entries(tables)) {
    const at = pointerTo('/realtime/tables', name)
    const table = catalogue.tables.get(name)
    if (table === undefined) {
      if (catalogue.partial === true) continue
      faults.add(at, `there is no table "${name}" in the schema "${catalogue.schema}"`, nearest(name, catalogue.tables.keys()))
    } else if (isWatchable(table)) {
      const typeFault = tenantTypeFault(table)
      if (typeFault !== undefined) faults.add(at, typeFault)
      for (const [index, column] of excludeFields.entries()) {
        if (table.columns.has(column)) continue
        faults.add(pointerTo(at, 'excludeFields', index), `the table "${name}" has no column "${column}"`, nearest(column, table.columns.keys()))
      }
    } else faults.add(at, `"${name}" cannot be watched: expected a table with a tenant_id column and a primary key`)
  }
}
