/** Turns database failures into errors of the catalogue, without SQL, values and other rows. The driver's error is the logged `cause`. */
import { catalogue, type CatalogueEntry, codeOf, failure, isFailure, TenantryError } from '../errors.js'
import { tenantColumn } from './catalogue.js'
import { tenantSetting } from './connections.js'

/** Seconds until a caller may retry; the server reconnects at once, so this is the shortest possible value. */
const retryAfter = { 'retry-after': '1' }

/** The columns of constraints, by table and name: errors name the constraint, responses name its columns. */
export type Constraints = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>

/** A column of a write that violates a rule of its table. */
interface BrokenColumn {
  readonly column: string
  readonly message: string
  readonly keyword: string
}

/** A conflict, or a violated rule of the table, with its columns if they are known: not for partitions and other schemas. */
export class ColumnsError extends TenantryError {
  readonly table: string
  readonly #entry: CatalogueEntry
  readonly #columns: readonly BrokenColumn[]

  /**
   * @param pointers the JSON Pointers of the columns that the caller gave; other columns have their names
   * @param writer the part of the document that writes, in words
   */
  constructor (
    entry: CatalogueEntry,
    table: string,
    columns: readonly BrokenColumn[],
    cause: unknown,
    pointers?: ReadonlyMap<string, string>,
    writer = 'the route'
  ) {
    const details = columns.map(({ column, message, keyword }) => {
      const path = pointers?.get(column)
      if (path !== undefined) return { path, message, keyword }
      const isUnset = pointers !== undefined && keyword === 'required'
      return { path: `/${column}`, message: isUnset ? `${message}, and ${writer} gives it none` : message, keyword }
    })
    super(entry, { cause, ...details.length > 0 && { extras: { details } } })
    this.table = table
    this.#entry = entry
    this.#columns = columns
  }

  /** The same error for a caller whose columns come from these members of the request. */
  at (pointers: ReadonlyMap<string, string>, writer?: string): ColumnsError {
    return new ColumnsError(this.#entry, this.table, this.#columns, this.cause, pointers, writer)
  }
}

/** Adds the columns to the error of a compiled write that refers to no row of the tenant: PostgreSQL does not name them. */
export function withReferences (error: unknown, table: string, references: readonly (readonly string[])[]): unknown {
  if (references.length === 0 || !isFailure(error, 'constraintViolated') || !isBrokenReference(error.cause)) return error
  const message = `the reference by ${references.map((columns) => columns.join(', ')).join(' or by ')} in ${table} would have no matching row`
  return new ColumnsError(
    catalogue.constraintViolated,
    table,
    references.flat().map((column) => ({ column, message, keyword: 'foreignKey' })),
    error.cause
  )
}

/** The SQLSTATE of an error that the database itself reported. */
export function sqlStateOf (error: unknown): string | undefined {
  const code = codeOf(error)
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && 'severity' in Object(error) ? code : undefined
}

/** For a `catch`: the result of a statement in a database that is not migrated yet. Other errors are thrown again. */
export function ifUnmigrated<Result> (result: Result): (error: unknown) => Result {
  return (error) => {
    if (isFailure(error, 'schemaChanged')) return result
    throw error
  }
}

/** A serialization failure or a deadlock: a repetition may succeed. */
export function isRetryable (error: unknown): boolean {
  const state = sqlStateOf(error)
  return state === '40001' || state === '40P01'
}

/** A prepared statement no longer fits the tables, or no longer exists. Nothing has run, and preparing it again helps. */
export function isStalePlan (error: unknown): boolean {
  const state = sqlStateOf(error)
  // 0A000 is "feature not supported" in general; here it means a formerly valid prepared statement.
  return state === '26000' || (state === '0A000' && fieldOf(error, 'routine') === 'RevalidateCachedQuery')
}

/** A policy did not find the tenant's setting in the session: another session made the setting. */
export function isLostSetting (error: unknown): boolean {
  // The text is translated, except for the name of the setting.
  return error instanceof Error && sqlStateOf(error) === '42704' && error.message.includes(tenantSetting)
}

/** The session stays unusable: it has lost its settings, its server was a read-only standby when it began, or the server has ended it. */
export function isSessionLost (error: unknown): boolean {
  return isLostSetting(error) || /^(?:25006|25P0[34]|57P)/.test(sqlStateOf(error) ?? '')
}

/** The error of the error catalogue for a driver's error. An unknown error is returned unchanged, and gives 500. */
export function translate (error: unknown, constraints: Constraints = new Map()): unknown {
  if (error instanceof TenantryError) return error
  const state = sqlStateOf(error)
  if (state !== undefined) return translateState(state, error, constraints)
  if (!(error instanceof Error)) return error
  if (error.message === 'timeout exceeded when trying to connect') return databaseBusy(error)
  return isLost(error) ? databaseUnavailable(error) : error
}

/** The error for a connection that cannot be opened. Failures of TLS and of the login have no common form. */
export function unreachable (error: unknown): TenantryError {
  const translated = translate(error)
  return translated instanceof TenantryError ? translated : databaseUnavailable(translated)
}

/** No connection was free in time. */
export function databaseBusy (cause?: unknown): TenantryError {
  return failure('databaseBusy', { headers: retryAfter, cause })
}

export function callerLeft (): TenantryError {
  return failure('stopping', { message: 'The caller disconnected' })
}

export function databaseUnavailable (cause?: unknown): TenantryError {
  return failure('databaseUnavailable', { headers: retryAfter, cause })
}

/** The database is unreachable, or too slow: a retry may succeed. */
export function isOutage (error: unknown): error is TenantryError {
  return isFailure(error, 'databaseUnavailable') || isFailure(error, 'databaseBusy')
}

/** The driver's messages of errors that are reported without values. */
const fullTexts = new WeakMap<Error, string>()

/** The hint of PostgreSQL's error. */
export function hintOf (error: unknown): string | undefined {
  return fieldOf(error, 'hint')
}

/** PostgreSQL's message with its values: for the platform's operator who changes tables, never for the log. */
export function fullTextOf (error: Error): string | undefined {
  return fullTexts.get(error) ?? (sqlStateOf(error) === undefined ? undefined : error.message)
}

/** The database refused a value, with this SQLSTATE. */
class DatabaseRefusal extends Error {
  constructor (message: string, readonly state: string) {
    super(message)
  }
}

/** Raised by compiled writes that refer to no row of the tenant. */
function isBrokenReference (cause: unknown): boolean {
  return cause instanceof DatabaseRefusal && cause.state === '22014'
}

/** The loggable part of a refusal: its place and its rule. The driver's messages quote the value, which may be a secret. */
function withoutValue (error: unknown, state: string): Error {
  const place = (['table', 'column', 'constraint', 'routine'] as const).flatMap((field) => {
    const value = fieldOf(error, field)
    return value === undefined ? [] : [`${field} ${value}`]
  })
  const refusal = new DatabaseRefusal(`PostgreSQL responded with ${state}${place.length === 0 ? '' : `: ${place.join(', ')}`}`, state)
  if (error instanceof Error) fullTexts.set(refusal, error.message)
  return refusal
}

/** Classes of errors about a value: data exceptions, violated rules, limits, and errors of triggers. */
const aboutValues = /^(?:22|23|44|54|P0|TN)/

interface Violation {
  readonly states: readonly string[]
  readonly entry: CatalogueEntry
  readonly keyword: string
  readonly message: (columns: string, table: string) => string
}

const violations: readonly Violation[] = [
  { states: ['23505'], entry: catalogue.conflict, keyword: 'unique', message: (columns) => `another record has the same ${columns}` },
  {
    // 23001 is PostgreSQL's code for `on delete restrict`, from version 18.
    states: ['23503', '23001'],
    entry: catalogue.constraintViolated,
    keyword: 'foreignKey',
    message: (columns, table) => `the reference by ${columns} in ${table} would have no matching row`
  },
  {
    states: ['23514'],
    entry: catalogue.constraintViolated,
    keyword: 'check',
    message: (columns) => `${columns} does not satisfy a constraint of the table`
  },
  {
    states: ['23P01'],
    entry: catalogue.constraintViolated,
    keyword: 'exclusion',
    message: (columns) => `${columns} conflicts with another record`
  }
]

/** The errors of the other states and classes; the first that matches is used. */
const others: readonly { readonly states: RegExp, readonly of: (cause: unknown) => TenantryError }[] = [
  // A table, column, type, constraint or schema is gone, or a column has another type than the statement expects.
  { states: /^(?:42P01|42703|42704|42804|42883|42P10|3F000)/, of: (cause) => failure('schemaChanged', { headers: retryAfter, cause }) },
  { states: /^(?:25P04|57014|40001|40P01|55P03|53)/, of: databaseBusy },
  { states: /^(?:25P03|25006|3D000|08|28|57|58)/, of: databaseUnavailable },
  // Raised by compiled statements only: an upsert met a row that it may not change.
  { states: /^2201F/, of: (cause) => failure('conflict', { cause }) },
  // 22014: raised by compiled writes that refer to another tenant's row. 21000: an upsert that names a row twice. P0001: a trigger of the
  // application. 23 and 44: rules without a case above, and a view's `with check option`.
  { states: /^(?:22014|21000|P0001|23|44)/, of: (cause) => failure('constraintViolated', { cause }) },
  // Raised by compiled statements only.
  { states: /^2201G/, of: (cause) => failure('answerTooLarge', { cause }) },
  // 54: a value too large for PostgreSQL, such as a text of 10 kB in a column with an index.
  { states: /^(?:22|54)/, of: (cause) => failure('invalidValue', { cause }) }
]

function translateState (state: string, error: unknown, constraints: Constraints): unknown {
  if (isLostSetting(error)) return databaseUnavailable(error)
  if (isStalePlan(error)) return failure('schemaChanged', { headers: retryAfter, cause: error })
  if (isOfValue(state, error)) return failure('invalidValue', { cause: withoutValue(error, state) })
  const cause = aboutValues.test(state) ? withoutValue(error, state) : error
  const violation = violations.find(({ states }) => states.includes(state))
  if (violation !== undefined) return broken(violation, error, cause, constraints)
  if (state === '23502') return required(error, cause)
  // Raised by a function of the application for its caller.
  if (state.startsWith('TN')) return failure('functionRefused', { cause, ...error instanceof Error && { message: shown(error.message) } })
  return others.find(({ states }) => states.test(state))?.of(cause) ?? cause
}

/** PostgreSQL's functions that find the object which a value names, such as a value of `regclass` or `regtype`. */
const lookups = /^(?:reg[a-z]+in|parseTypeString)$/

/** An error about a value whose state is that of an error in a statement. */
function isOfValue (state: string, error: unknown): boolean {
  // For an error in a statement, PostgreSQL reports its position there.
  const isPlaced = fieldOf(error, 'position') !== undefined
  const context = fieldOf(error, 'where')
  // Some types have a syntax of their own, such as `jsonpath`. That of `regtype` reports a position in the value, with a context.
  if (state === '42601' || state === '42602') return !isPlaced || context !== undefined
  // With an internal position, the error is in a statement of a function that checks the value, such as that of a domain.
  if (!/^(?:0A|3F|42)/.test(state) || isPlaced || fieldOf(error, 'internalPosition') !== undefined) return false
  // The context of a parameter ends in `$1 = '...'`; the words before it are translated. A value in a list of records has none. With
  // `log_parameter_max_length_on_error`, the context of every error lists the parameters, after a colon.
  return lookups.test(fieldOf(error, 'routine') ?? '') || /(?:^|\n)[^:\n]*\$\d+(?: = '.*')?$/s.test(context ?? '')
}

const maxShown = 500 // characters

function shown (text: string): string {
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text
}

/** Errors of the socket, and errors of pg's client and pool about lost connections, which have no code. */
function isLost (error: Error): boolean {
  if (/^E[A-Z_]+$/.test(codeOf(error) ?? '') && 'syscall' in error) return true
  // For a host with several unreachable addresses, Node reports one error that contains the others.
  if (error instanceof AggregateError) return error.errors.some((one) => one instanceof Error && isLost(one))
  return /^Connection terminated|^Client (has encountered a connection error|was closed)|^timeout expired$|^Cannot use a pool after/.test(
    error.message
  )
}

function broken ({ entry, keyword, message }: Violation, error: unknown, cause: unknown, constraints: Constraints): TenantryError {
  const table = fieldOf(error, 'table')
  const constraint = fieldOf(error, 'constraint')
  const columns = table === undefined || constraint === undefined ? undefined : constraints.get(table)?.get(constraint)
  // The tenant is in keys of tenant-scoped tables, but callers do not send it.
  const own = columns?.filter((column) => column !== tenantColumn) ?? []
  if (table === undefined) return new TenantryError(entry, { cause, ...ofDomain(error, keyword) })
  const text = message(own.join(', '), table)
  return new ColumnsError(entry, table, own.map((column) => ({ column, message: text, keyword })), cause)
}

function required (error: unknown, cause: unknown): TenantryError {
  const column = fieldOf(error, 'column')
  const table = fieldOf(error, 'table')
  if (table === undefined || column === undefined) return failure('constraintViolated', { cause, ...ofDomain(error, 'required') })
  return new ColumnsError(
    catalogue.constraintViolated,
    table,
    [{ column, message: `${column} must have a value`, keyword: 'required' }],
    cause
  )
}

/** For a rule of a domain, the database reports neither the table nor the column. */
function ofDomain (error: unknown, keyword: string) {
  const domain = fieldOf(error, 'dataType')
  const message = `a value does not satisfy the rules of its type "${domain}"`
  return domain !== undefined && { extras: { details: [{ path: '', message, keyword }] } }
}

type ErrorField = 'table' | 'column' | 'constraint' | 'dataType' | 'hint' | 'routine' | 'position' | 'internalPosition' | 'where'

/** A field of PostgreSQL's error. Names have their own fields; the message is translated. */
function fieldOf (error: unknown, field: ErrorField): string | undefined {
  const value: unknown = error instanceof Error ? Object.getOwnPropertyDescriptor(error, field)?.value : undefined
  return typeof value === 'string' ? value : undefined
}
