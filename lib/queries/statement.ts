/**
 * Statements by variant. What a request leaves out (an optional filter, a column of the data, excluded fields) changes
 * the text; each combination is written once, when the first request needs it.
 */
import type { Statement } from '../database/engine.js'
import type { Scope } from '../expressions/types.js'
import type { QueryContext } from './context.js'
import { createHash } from 'node:crypto'
import { type Binder, type Input, Placeholders } from './sql.js'

/**
 * Named variants of one query. Connections prepare those that come back, so a caller must not be able to push out other
 * queries by leaving out members in ever new ways; later ones run without a name.
 */
export const maxVariants = 64

/** Decides for one request whether a part of the statement is in it. */
export type Switch = (scope: Scope, input: Input) => boolean

/** Writes the text with the parts whose switches are on, and with what was chosen, if anything was. */
export type Writer<Choice = number> = (placeholders: Placeholders, on: ReadonlySet<Switch>, chosen: Choice | undefined) => string

/** What a request chooses of a text besides its switches. */
export interface Chooser<Choice> {
  readonly choose: (scope: Scope) => Choice | undefined
  /** Different choices have different keys, and none of them ends in `+` or `-`. */
  readonly keyOf: (chosen: Choice) => string
}

export interface Bound {
  readonly statement: Statement
  readonly values: readonly unknown[]
}

interface Variant {
  readonly statement: Statement
  readonly binders: readonly Binder[]
}

/** Whose document a text comes from. */
type Origin = QueryContext['origin']

/** A choice of a number that the text holds. */
export function numberChooser (choose: (scope: Scope) => number | undefined): Chooser<number> {
  return { choose, keyOf: String }
}

/** The function that picks the variant for a request and binds its values. */
export function compileVariants<Choice = number> (
  origin: Origin,
  switches: readonly Switch[],
  write: Writer<Choice>,
  chooser?: Chooser<Choice>
): (scope: Scope, input: Input) => Bound {
  if (switches.length === 0 && chooser === undefined) {
    const { statement, binders } = writeVariant(write, new Set(), undefined, origin)
    return (scope, input) => ({ statement, values: bindAll(binders, scope, input) })
  }
  const named = new Map<string, Variant>()
  const unnamed = new Map<string, Variant>()
  return (scope, input) => {
    const chosen = chooser?.choose(scope)
    let key = chosen === undefined || chooser === undefined ? '' : chooser.keyOf(chosen)
    for (let index = 0; index < switches.length; index++) key += switches[index]!(scope, input) ? '+' : '-'
    let variant = named.get(key) ?? unnamed.get(key)
    if (variant === undefined) {
      const on = new Set(switches.filter((each) => each(scope, input)))
      variant = writeVariant(write, on, chosen, named.size < maxVariants ? origin : null)
      if (variant.statement.name === undefined && unnamed.size === maxVariants) unnamed.clear()
      const held = variant.statement.name === undefined ? unnamed : named
      held.set(key, variant)
    }
    return { statement: variant.statement, values: bindAll(variant.binders, scope, input) }
  }
}

/** A statement that is written anew for each request, so it has no name. */
export function writeOnce (write: Writer, scope: Scope, input: Input): Bound {
  const { statement, binders } = writeVariant(write, new Set(), undefined, null)
  return { statement, values: bindAll(binders, scope, input) }
}

/** As `Statement.name` has it for tenants. */
const prefixes = { platform: 'p_', tenant: 't_' } as const satisfies Record<Origin, string>

/** The same text of the same origin has the same name in every query, and no other text has it: 128 bits of a hash. */
function statementName (text: string, origin: Origin): string {
  return prefixes[origin] + createHash('sha256').update(text).digest('hex').slice(0, 32)
}

/** `origin` null leaves the statement without a name. */
function writeVariant<Choice> (write: Writer<Choice>, on: ReadonlySet<Switch>, chosen: Choice | undefined, origin: Origin | null): Variant {
  const placeholders = new Placeholders()
  const text = write(placeholders, on, chosen)
  const statement = origin === null ? { text } : { text, name: statementName(text, origin) }
  return { statement: Object.freeze(statement), binders: placeholders.binders }
}

function bindAll (binders: readonly Binder[], scope: Scope, input: Input): unknown[] {
  const values = new Array<unknown>(binders.length)
  for (let index = 0; index < binders.length; index++) values[index] = binders[index]!(scope, input)
  return values
}
