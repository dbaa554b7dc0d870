/** Collects the text of one statement, and the sources of its placeholders. */
import type { Scope } from '../expressions/types.js'
import { failure } from '../errors.js'
import { castType } from './identifiers.js'

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

/** Collects the placeholders of a statement. The same binder with the same type always has the same placeholder. */
export class Placeholders {
  readonly binders: Binder[] = []
  readonly #known = new Map<Binder, Map<string, string>>()
  #aliases = 0

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
export const bindTenant: Binder = (scope) => {
  if (scope.tenant === null) throw failure('tenantRequired')
  return scope.tenant.id
}
