/** `condition`: an expression that says whether something is done. */
import type { TemplateContext } from './reference.js'
import type { Reference, Scope } from './types.js'
import { compileExpression } from './expression.js'

export interface CompiledCondition {
  readonly references: readonly Reference[]
  /** Never throws. */
  readonly holds: (scope: Scope) => boolean
}

/**
 * Compiles a condition; null after faults. False, null, 0 and the empty text do not hold, nor does what cannot be computed,
 * such as a comparison with what is not there.
 */
export function compileCondition (text: string, pointer: string, context: TemplateContext): CompiledCondition | null {
  const expression = compileExpression(text, pointer, context, [])
  if (expression === null) return null
  const { references, evaluate } = expression
  return Object.freeze({
    references,
    holds (scope: Scope) {
      try {
        return Boolean(evaluate(scope, noLocals))
      } catch {
        return false
      }
    }
  })
}

const noLocals = Object.freeze({})
