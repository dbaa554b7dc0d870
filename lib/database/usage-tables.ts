/** The tables of request figures and usage in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>

/** Requests of one kind in one hour. */
export interface RequestStatsTable {
  /** Empty for the platform, whose rows cover all requests. */
  tenant_id: string
  hour: ColumnType<Date, Date, Date>
  /** The `serviceName` of the counting server. */
  service: string
  method: string
  route: string
  status: number
  count: ColumnType<string, number, number>
  /** The durations: buckets of a histogram, in their order, */
  buckets: number[]
  /** and the number of requests in each. */
  counts: ColumnType<string[], number[], number[]>
}

export interface RequestStatsWritersTable {
  id: string
  /** The number of the batch that it wrote last. */
  batch: ColumnType<string, number, number>
  written_at: ColumnType<Date, Date, Date>
}

/** The requests of a tenant on a day; at most 2^53 - 1 of each. */
export interface UsageRequestsTable {
  tenant_id: string
  /** `YYYY-MM-DD`, in UTC. */
  day: string
  api_calls: ColumnType<string, number, number>
  bandwidth_bytes: ColumnType<string, number, number>
}

/** A tenant's other usage in a period; never negative, and at most 2^53 - 1. */
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

/** The open connections and similar items of a tenant in a process. */
export interface UsageGaugesTable {
  instance_id: string
  tenant_id: string
  gauge: string
  value: ColumnType<string, number, number>
  /** Counts the writes of the process, so that an older one that arrives late has no effect. */
  written: ColumnType<string, number, number>
  written_at: Timestamp
}

/** Amounts reserved for running operations. */
export interface UsageReservationsTable {
  id: string
  instance_id: string
  tenant_id: string
  counter: string
  /** The period of the figures for its booking: a day, or `total`. */
  period: string
  amount: ColumnType<string, number, number>
  /** The amount that others booked after its process was gone; null while it is open. */
  booked: ColumnType<string | null, number | null | undefined, number | null>
  created_at: Timestamp
  resolved_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
}
