import type { Test } from 'tap'
import { tenantAccount, turns, type Pace } from '../../lib/concurrency/event-loop.js'

/** Keeps the long work of a tenant in its pause, as if it had worked for long beside others, until `end` is called. */
export function holdInPause (t: Test, tenant: string): { end(): void } {
  const held = tenantAccount(tenant)
  const paceOf = turns.pace.bind(turns)
  let isPaused = true
  const waiting: (() => void)[] = []
  const pace: Pace = {
    due: () => isPaused,
    rest: () =>
      new Promise((resolve) => {
        waiting.push(resolve)
      }),
    done: () => {},
    get waiting () {
      return waiting.length
    }
  }
  const { restore } = t.intercept(turns, 'pace', { value: (account: string) => account === held ? pace : paceOf(account) })
  const end = (): void => {
    restore()
    isPaused = false
    for (const resolve of waiting.splice(0)) resolve()
  }
  t.teardown(end)
  return { end }
}
