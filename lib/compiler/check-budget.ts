/** Limits the cost of checking one request to a tenant's route. Rules and callers may be hostile. */
import { invalidInput } from '../validation/detail.js'

const maxSteps = 1_100_000 // about 50 ms; a step is one character in one state of a pattern, and a pattern may take a million

/** The cost of each check, in steps. */
export const steps = {
  value: 4,
  /** In addition to the cost of its members. */
  object: 12,
  /** For each required member. */
  required: 1,
  format: 12,
  /** For dates and times, which need a calendar. */
  date: 40,
  /** In addition to the cost of each character. */
  pattern: 30
} as const

/** The remaining steps of one request. All parts of the request share them. */
export class CheckBudget {
  #left = maxSteps

  /** Throws `validationFailed` if fewer steps are left. */
  spend (count: number): void {
    this.#left -= count
    if (this.#left < 0) {
      throw invalidInput('', 'the request has too much data to validate: send less at once', 'limit')
    }
  }
}
