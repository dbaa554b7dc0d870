/** Errors that would end the process. */
import type { Test } from 'tap'

/** Collects errors without a handler until the end of the test, instead of letting them fail it. */
export function uncaughtErrors (t: Test): readonly unknown[] {
  const errors: unknown[] = []
  const note = (error: unknown): void => {
    errors.push(error)
  }
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, note)
    t.teardown(() => process.off(event, note))
  }
  return errors
}
