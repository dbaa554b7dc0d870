/** The text of one statement: its draft, its names, its variants, and the limit of its result. */
import { hash } from 'node:crypto'
import type { Table } from '../database/catalogue.js'
import type { Statement } from '../database/engine.js'
import { failure } from '../errors.js'
import { maxResultBytes } from '../expressions/result.js'
import type { Scope } from '../expressions/types.js'
import type { BoundQuery } from './compiled-query.js'
import type { QueryContext } from './context.js'
import { type PrintedType, printedTypes, unfitTenant } from './tenant-types.js'

/** The input of a write, read from the request and checked once before its values are bound. */
export interface Input {
  /** The values of one row, in the order of the writable columns; undefined if absent. */
  readonly row: readonly unknown[]
  /** Many rows as one JSON text. */
  readonly rows: string
  /** The number of rows. */
  readonly count: number
}

export const noInput: Input = Object.freeze({ row: Object.freeze([]), rows: '[]', count: 0 })

/** Gives the value of one placeholder; throws the errors of `CompiledQuery.bind`. */
export type Binder = (scope: Scope, input: Input) => unknown

/** Decides whether a request includes a part of the statement. */
export type Switch = (scope: Scope, input: Input) => boolean

/** On if the caller bypasses field exclusion. */
export const hasFullAccess: Switch = (scope) => scope.fullAccess

/** A statement that is being written. The same binder with the same type always has the same placeholder. */
export class Draft {
  readonly binders: Binder[] = []
  readonly #on: ReadonlySet<Switch>
  readonly #known = new Map<Binder, Map<string, string>>()
  #aliases = 0

  constructor (on: Iterable<Switch>) {
    this.#on = new Set(on)
  }

  /** Whether the request includes the part. */
  has (part: Switch): boolean {
    return this.#on.has(part)
  }

  /** The placeholder of a value, cast to its type, so that PostgreSQL does not infer another type and indexes apply. */
  add (binder: Binder, type: string): string {
    const byType = this.#known.get(binder) ?? new Map<string, string>()
    this.#known.set(binder, byType)
    let placeholder = byType.get(type)
    if (placeholder === undefined) {
      placeholder = `$${this.binders.push(binder)}::${castType(type)}`
      byType.set(type, placeholder)
    }
    return placeholder
  }

  /** The next table alias: `t0`, `t1`, ... */
  alias (): string {
    return `t${this.#aliases++}`
  }
}

/** Binds the tenant of the request; a query on tenants' rows cannot run without one. */
export const bindTenant = ((scope) => {
  if (scope.tenant === null) throw failure('tenantRequired')
  return scope.tenant.id
}) satisfies Binder

/** For columns of types that read several texts as one value: binds only the id that such a column prints. */
const printedTenants: ReadonlyMap<string, Binder> = new Map([...printedTypes].map(([type, printed]) => [type, printedTenant(printed)]))

function printedTenant ({ prints, description }: PrintedType): Binder {
  return (scope) => {
    const id = bindTenant(scope)
    if (!prints(id)) throw unfitTenant(description)
    return id
  }
}

/** Binds the tenant of the request to a column `tenant_id` of the type. */
export function tenantBinder (type: string): Binder {
  return printedTenants.get(type) ?? bindTenant
}

/**
 * Named variants of one query: each combination of the parts that a request omits has another text, written on the first request
 * that needs it. Connections prepare repeated statements. Without the limit, a caller could evict other queries by omitting
 * members in ever new combinations. Further variants run without a name.
 */
const maxVariants = 64

/** Writes the text of the draft, with the choice, if there is one. */
type Writer<Choice = number> = (draft: Draft, chosen: Choice | undefined) => string

/** A request's choice in a text, besides its switches. */
interface Chooser<Choice> {
  readonly choose: (scope: Scope) => Choice | undefined
  /** Different choices have different keys. A key must not end in `+` or `-`. */
  readonly keyOf: (chosen: Choice) => string
}

export type Bound = Pick<BoundQuery, 'statement' | 'values'>

interface Variant {
  readonly statement: Statement
  readonly binders: readonly Binder[]
}

/** The owner of the document that a text comes from. */
type Origin = QueryContext['origin']

/** The properties of a query's statements besides their text. */
export interface StatementUse {
  readonly origin: Origin
  /** Calls of functions are reads too: the VOLATILE ones often only read, because VOLATILE is the default. */
  readonly isRead: boolean
}

/** Returns the function that selects the variant for a request and binds its values. */
export function compileVariants<Choice = number> (
  use: StatementUse,
  switches: readonly Switch[],
  write: Writer<Choice>,
  chooser?: Chooser<Choice>
): (scope: Scope, input?: Input) => Bound {
  if (switches.length === 0 && chooser === undefined) {
    const { statement, binders } = writeVariant(write, [], undefined, use)
    return (scope, input = noInput) => ({ statement, values: bindAll(binders, scope, input) })
  }
  const named = new Map<string, Variant>()
  const unnamed = new Map<string, Variant>()
  return (scope, input = noInput) => {
    const chosen = chooser?.choose(scope)
    let key = chosen === undefined || chooser === undefined ? '' : chooser.keyOf(chosen)
    for (let index = 0; index < switches.length; index++) key += switches[index]!(scope, input) ? '+' : '-'
    let variant = named.get(key) ?? unnamed.get(key)
    if (variant === undefined) {
      const on = switches.filter((each) => each(scope, input))
      variant = writeVariant(write, on, chosen, named.size < maxVariants ? use : { ...use, origin: null })
      if (variant.statement.name === undefined && unnamed.size === maxVariants) unnamed.clear()
      const held = variant.statement.name === undefined ? unnamed : named
      held.set(key, variant)
    }
    return { statement: variant.statement, values: bindAll(variant.binders, scope, input) }
  }
}

/** A write without a name, because each request writes its own. */
export function writeOnce (switches: readonly Switch[], write: Writer, scope: Scope, input: Input): Bound {
  const on = switches.filter((each) => each(scope, input))
  const { statement, binders } = writeVariant(write, on, undefined, { origin: null, isRead: false })
  return { statement, values: bindAll(binders, scope, input) }
}

/** The prefixes of `Statement.name`, by origin. */
const prefixes = { platform: 'p_', tenant: 't_' } as const satisfies Record<Origin, string>

/** The name of a text: equal for equal texts of the same origin in all queries, and different for others (128 bits of a hash). */
function statementName (text: string, origin: Origin): string {
  return prefixes[origin] + hash('sha256', text).slice(0, 32)
}

/** With a null `origin` the statement has no name. */
function writeVariant<Choice> (
  write: Writer<Choice>,
  on: readonly Switch[],
  chosen: Choice | undefined,
  { origin, isRead }: { readonly origin: Origin | null, readonly isRead: boolean }
): Variant {
  const draft = new Draft(on)
  const text = write(draft, chosen)
  const statement = { text, ...isRead && { isRead }, ...origin !== null && { name: statementName(text, origin) } }
  return { statement: Object.freeze(statement), binders: draft.binders }
}

function bindAll (binders: readonly Binder[], scope: Scope, input: Input): unknown[] {
  const values = new Array<unknown>(binders.length)
  for (let index = 0; index < binders.length; index++) values[index] = binders[index]!(scope, input)
  return values
}

/** PostgreSQL truncates longer names, and a member would get another name than the requested one. */
export const maxNameBytes = 63

/** A name as a quoted identifier: `we"ird` is `"we""ird"`. */
export function quote (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function tableName (schema: string, table: Table): string {
  return `${quote(schema)}.${quote(table.name)}`
}

/** A similar name that the table does not use for a column. */
export function freeName ({ columns }: Table, wanted: string): string {
  let name = wanted
  while (columns.has(name)) name += '_'
  return name
}

/** A column of the row of an alias. */
export function columnOf (alias: string, name: string): string {
  return `${alias}.${quote(name)}`
}

/** Whether a member of a response can have the name. */
export function fitsName (name: string): boolean {
  return name.length > 0 && !name.includes('\0') && Buffer.byteLength(name) <= maxNameBytes
}

/** A type to cast to. `format_type` gives some types a name that implies a length of 1: a cast to that name would truncate the value. */
export function castType (type: string): string {
  return type.replace(/^(character|bit)(?=$|\[\])/, (name) => name === 'bit' ? '"bit"' : 'bpchar')
}

// Limits the size of a statement's text. PostgreSQL enforces the limit before it sends anything. A JavaScript string cannot hold more
// than 512 MB, and far smaller texts take memory and time from other requests. A larger text fails the statement, which also rolls back a
// write.

/** Wraps a `select` of one text whose subquery cannot be flattened, because it has an aggregate or a limit. */
export function boundedText (select: string): string {
  return `select ${boundedColumn('a.t')} from (${select}) a(t)`
}

/** Wraps any other `select`. Without `offset 0`, which is free, PostgreSQL would flatten the subquery and compute the text twice. */
export function boundedRowText (select: string): string {
  return boundedText(`${select} offset 0`)
}

/** A text column, if it is within the limit. */
export function boundedColumn (column: string): string {
  const size = `octet_length(${column})`
  return `case when ${size} > ${maxResultBytes} then ${tooLarge(size)} else ${column} end`
}

/** Fails with SQLSTATE 2201G (`answerTooLarge`). `size`, from 0, depends on the row: PostgreSQL cannot evaluate it in advance. */
export function tooLarge (size: string): string {
  return `width_bucket(0::float8, 0, 1, -${size})::text`
}
