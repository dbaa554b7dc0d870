/** The types of columns in the system tables, as kysely sees them: when read, when inserted, when updated. */
import type { ColumnType } from 'kysely'

export type Time = ColumnType<Date, Date, Date>
/** A time with a default. */
export type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>
export type OptionalTime = ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
/** PostgreSQL's bigint: read as text. */
export type Bigint = ColumnType<string, number, number>
