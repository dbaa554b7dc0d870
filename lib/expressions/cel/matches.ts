/** `matches()`, with a regular expression that takes linear time. */
import type { Budget } from './budget.js'
import { checkPattern } from '../linear-pattern.js'
import { text } from './operand.js'

/** The compiled pattern, or its fault. */
export function compileMatches (pattern: string): ((value: unknown, budget: Budget) => boolean) | string {
  const checked = checkPattern(pattern, undefined)
  if (checked.fault !== null) return checked.fault
  const { compiled } = checked
  return (value, budget) => {
    budget.spend(compiled.stepsOn(text(value)))
    return compiled.test(text(value))
  }
}
