/** The budget of the check of one request to a tenant's route. Rules and callers may be hostile. */
import { invalidInput } from '../validation/detail.js'

const maxSteps = 1_100_000 // some 50 ms: a step is one character on one state of a pattern, which may take a million

/** The steps of what is checked. */
export const steps = {
  value: 4,
  /** Besides those of its members. */
  object: 12,
  /** That an object must have. */
  required: 1,
  format: 12,
  /** Of days and times, which have a calendar. */
  date: 40,
  /** Before the first character of a text. */
  pattern: 30
} as const

/** The steps that are left to one request: all of its parts share them. */
export class CheckBudget {
  #left = maxSteps

  /** Throws `validationFailed` where there are not as many left. */
  spend (count: number): void {
    this.#left -= count
    if (this.#left < 0) {
      throw invalidInput('', 'the request holds too much to check by the rules of its fields: send less at once', 'limit')
    }
  }
}
