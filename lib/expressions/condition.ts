/** `condition`: an expression that decides whether a step or call runs. */
import { createWarned } from '../cache/warned.js'
import { isFailure } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import { NotComputable } from './cel/values.js'
import { compileExpression } from './expression.js'
import type { TemplateContext } from './reference.js'
import type { Reference, Scope } from './types.js'

/** An expression that could not be computed: its place in the document, and the reason without values. */
interface ExpressionFault {
  readonly pointer: string
  readonly reason: string
}

export type ReportFault = (fault: ExpressionFault) => void

/** Throws `expressionLimit`; an expression that cannot be computed is false and reported. */
export type Condition = (scope: Scope, report: ReportFault) => boolean

export interface CompiledCondition {
  readonly references: readonly Reference[]
  readonly holds: Condition
}

const noLocals = Object.freeze({})

/** Compiles a condition; null after faults. It is true for every value but false, null, 0, NaN and the empty text. */
export function compileCondition (text: string, pointer: string, context: TemplateContext): CompiledCondition | null {
  const expression = compileExpression(text, pointer, context, [])
  if (expression === null) return null
  return Object.freeze({
    references: expression.references,
    holds: (scope: Scope, report: ReportFault) => {
      try {
        return expression.holds(scope, noLocals)
      } catch (error) {
        reportFault(error, pointer, report)
        return false
      }
    }
  })
}

/** Reports why an expression could not be computed; rethrows `expressionLimit`. */
export function reportFault (error: unknown, pointer: string, report: ReportFault): void {
  if (isFailure(error, 'expressionLimit')) throw error
  report({ pointer, reason: error instanceof NotComputable ? error.message : 'unexpected error' })
}

/** The used part of a Fastify logger. */
interface WarningLog {
  warn (details: object, message: string): void
}

const warned = createWarned()

/** Turns the pointer of a compiled part into its place in the document. */
export type PlaceOf = (pointer: string) => string

/** Logs a warning once a minute for each place of each tenant's requests; `tenant` is null for a request without one. */
export function expressionFaults (log: WarningLog, tenant: Owner | null, placeOf: PlaceOf = (pointer) => pointer): ReportFault {
  return ({ pointer, reason }: ExpressionFault) => {
    const expression = placeOf(pointer)
    if (!warned.isFirst(tenant, expression)) return
    log.warn({ tenant, expression, reason }, 'an expression could not be computed: its condition counts as false')
  }
}
