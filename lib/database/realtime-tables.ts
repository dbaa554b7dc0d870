/** The tables of realtime in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, GeneratedAlways } from 'kysely'
import type { Bigint, Time } from './column-types.js'

export interface RealtimeTables {
  /** A change of a row that has no position yet; a trigger writes it. */
  'tenantry.realtime_outbox': {
    tenant_id: string
    /** Orders the changes of one transaction, and those of one row. */
    place: GeneratedAlways<string>
    table_name: string
    /** Insert, update or delete. */
    kind: 'I' | 'U' | 'D'
    /** The columns of the key. */
    keys: string[]
    /** The row after the change; for a delete, before it. */
    record: ColumnType<unknown, string, never>
    /** The row before an update. */
    before: ColumnType<unknown, string | null, never>
    /** The size of both; 0 for changes of an earlier version. */
    bytes: ColumnType<number, number | undefined, never>
    /** `record` lacks the long values of a large row. */
    cut: ColumnType<boolean, boolean | undefined, never>
  }

  /** A table of a tenant whose changes are recorded. */
  'tenantry.realtime_recorded': {
    tenant_id: string
    table_name: string
    /** All changes after this position are recorded; null until recording is complete. */
    start: ColumnType<string | null, number | null, number | null>
    until: Date
  }

  /** Changes of a tenant that got their positions together. */
  'tenantry.realtime_changes': {
    tenant_id: string
    /** The positions of the last and the first change: the order in which clients see a tenant's changes, from the commit on. */
    position: ColumnType<string, number, never>
    first: ColumnType<string, number, never>
    /** The size of `changes`. */
    bytes: ColumnType<number, number, never>
    tables: string[]
    /** In the form of plugins/realtime/batches.ts. */
    changes: ColumnType<string, string, never>
    at: ColumnType<Date, Date | undefined, never>
  }

  /** The progress of assigning positions to a tenant's changes. */
  'tenantry.realtime_heads': {
    tenant_id: string
    position: Bigint
    /** Changes up to this position were removed. */
    floor: ColumnType<string, number | undefined, number>
    /** Grows over all tenants with every batch of positions. */
    stamp: Bigint
  }

  /** Processes with connections. */
  'tenantry.realtime_instances': {
    id: string
    seen_at: Time
  }

  /** A connection in a room. */
  'tenantry.realtime_members': {
    tenant_id: string
    room: string
    id: string
    instance_id: string
    state: ColumnType<unknown, string | null, string | null>
    place: GeneratedAlways<string>
  }

  /** Messages of rooms that one process sends to the others, in batches. */
  'tenantry.realtime_messages': {
    tenant_id: string
    instance_id: string
    /** Counts the batches of the process. */
    number: ColumnType<string, number, never>
    /** JSON. */
    messages: string
    at: ColumnType<Date, Date | undefined, never>
  }
}
