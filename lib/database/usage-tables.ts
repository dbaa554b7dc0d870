/** The tables of request figures and usage in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>

/** Requests of one kind in one hour. */
export interface RequestStatsTable {
  /** Empty for the platform, whose rows are those of all requests. */
  tenant_id: string
  /** Its start. */
  hour: ColumnType<Date, Date, Date>
  /** The `serviceName` of who counted them. */
  service: string
  method: string
  route: string
  status: number
  count: ColumnType<string, number, number>
  /** How long they took: buckets of a histogram, in their order, */
  buckets: number[]
  /** and how many requests are in each. */
  counts: ColumnType<string[], number[], number[]>
}

/** Processes that write `request_stats`. */
export interface RequestStatsWritersTable {
  id: string
  /** The number of the batch that it wrote last. */
  batch: ColumnType<string, number, number>
  written_at: ColumnType<Date, Date, Date>
}

/** What a tenant's requests used on a day; at most 2^53 - 1 of each. */
export interface UsageRequestsTable {
  tenant_id: string
  /** `YYYY-MM-DD`, in UTC. */
  day: string
  api_calls: ColumnType<string, number, number>
  bandwidth_bytes: ColumnType<string, number, number>
}

/** What else a tenant has used in a period; nothing negative, and at most 2^53 - 1. */
export interface UsageCountersTable {
  tenant_id: string
  counter: string
  /** `YYYY-MM-DD`, or `total`. */
  period: string
  amount: ColumnType<string, number, number>
}

/** Processes that count usage. */
export interface UsageInstancesTable {
  id: string
  seen_at: Timestamp
  /** The number of the last batch of figures that it wrote. */
  last_batch: ColumnType<string, number, number>
}

/** What of a tenant a process has open. */
export interface UsageGaugesTable {
  instance_id: string
  tenant_id: string
  gauge: string
  value: ColumnType<string, number, number>
  /** Counts the writes of the process: an older one that arrives late changes nothing. */
  written: ColumnType<string, number, number>
  written_at: Timestamp
}

/** Amounts that operations under way may use. */
export interface UsageReservationsTable {
  id: string
  instance_id: string
  tenant_id: string
  counter: string
  /** That of the figures that it is booked to: a day, or `total`. */
  period: string
  amount: ColumnType<string, number, number>
  /** What others booked of it when its process was gone; null where it is open. */
  booked: ColumnType<string | null, number | null | undefined, number | null>
  created_at: Timestamp
  resolved_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
}
