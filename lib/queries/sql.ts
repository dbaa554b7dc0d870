/** The text of one statement while it is written, and where the values of its placeholders come from. */
import type { Scope } from '../expressions/types.js'
import { failure } from '../errors.js'
import { castType } from './identifiers.js'

/** What a write takes from the request, read and checked once before its values are bound. */
export interface Input {
  /** The values of one row, in the order of the columns that may be written; undefined is absent. */
  readonly row: readonly unknown[]
  /** Many rows as one JSON text. */
  readonly rows: string
  /** How many rows. */
  readonly count: number
}

export const noInput: Input = Object.freeze({ row: Object.freeze([]), rows: '[]', count: 0 })

/** Gives the value of one placeholder; throws the errors of `CompiledQuery.bind`. */
export type Binder = (scope: Scope, input: Input) => unknown

/** Collects the placeholders of a statement; one binder with one type has one placeholder, however often it is used. */
export class Placeholders {
  readonly binders: Binder[] = []
  readonly #known = new Map<Binder, Map<string, string>>()
  #aliases = 0

  /** The placeholder of a value, cast to its type, so that PostgreSQL never guesses and indexes are used. */
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

/** The tenant of the request; a query on a tenant's rows cannot run without one. */
export const bindTenant: Binder = (scope) => {
  if (scope.tenant === null) throw failure('tenantRequired')
  return scope.tenant.id
}
