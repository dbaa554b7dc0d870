/** The tables of realtime in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, GeneratedAlways } from 'kysely'

/** A change of a row of a watched table; a trigger writes it. */
export interface RealtimeChangesTable {
  tenant_id: string
  /** Orders the changes of one transaction, and those of one row. */
  place: GeneratedAlways<string>
  /** Orders the changes of a tenant for clients; null until the position is assigned, after the commit. */
  position: ColumnType<string | null, never, number>
  table_name: string
  /** Insert, update or delete. */
  kind: 'I' | 'U' | 'D'
  key: ColumnType<Record<string, unknown>, string, never>
  /** The row after the change, or, for a delete, before it. */
  record: ColumnType<Record<string, unknown>, string, never>
  /** The old values of the columns that an update changed. */
  before: ColumnType<Record<string, unknown> | null, string | null, never>
  /** The row was too large: long columns are missing. */
  cut: boolean
  at: ColumnType<Date, Date | undefined, never>
}

/** The progress of assigning positions to a tenant's changes. */
export interface RealtimeHeadsTable {
  tenant_id: string
  position: ColumnType<string, number, number>
  /** Changes up to this position were removed. */
  floor: ColumnType<string, number | undefined, number>
  /** Grows over all tenants with every batch of positions. */
  stamp: ColumnType<string, number, number>
}

/** Processes with connections. */
export interface RealtimeInstancesTable {
  id: string
  seen_at: ColumnType<Date, Date, Date>
}

/** A connection in a room. */
export interface RealtimeMembersTable {
  tenant_id: string
  room: string
  /** Of the connection. */
  id: string
  instance_id: string
  state: ColumnType<unknown, string | null, string | null>
  place: GeneratedAlways<string>
}

/** Messages of rooms that one process sends to the others, in batches. */
export interface RealtimeMessagesTable {
  tenant_id: string
  instance_id: string
  /** Counts the batches of the process. */
  number: ColumnType<string, number, never>
  /** JSON. */
  messages: string
  at: ColumnType<Date, Date | undefined, never>
}
