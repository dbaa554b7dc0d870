import type { Test } from 'tap'
import { tenantAccount, turns, type Yielder } from '../../lib/concurrency/event-loop-yielder.js'
import { tenantIdOf } from '../../lib/identity/tenant-ref.js'

/**
 * Holds a tenant's long work at its yields until `end` is called, as if others had their turn. `next` lets one piece of it go on.
 * `waiting`: the number of waiting pieces. `pass` lets pieces begin that have not yet waited, until `hold`.
 */
export function holdInPause (t: Test, tenant: string): ReturnType<typeof holdAccount> {
  return holdAccount(t, tenantAccount(tenantIdOf(tenant)))
}

/** As `holdInPause`, for any account, such as the address of callers without a tenant. */
export function holdAccount (
  t: Test,
  held: string
): { next(): void, pass(): void, hold(): void, end(): void, waiting(): number } {
  const yielderOf = turns.yielder.bind(turns)
  let isPaused = true
  const waiting: (() => void)[] = []
  const set = (paused: boolean) => () => {
    isPaused = paused
  }
  const yielder: Yielder = {
    shouldYield: () => isPaused,
    yield: () =>
      new Promise((resolve) => {
        waiting.push(resolve)
      }),
    begin: () => {},
    done: () => {},
    get waiting () {
      return waiting.length
    }
  }
  const { restore } = t.intercept(turns, 'yielder', { value: (account: string) => account === held ? yielder : yielderOf(account) })
  const end = (): void => {
    restore()
    isPaused = false
    for (const resolve of waiting.splice(0)) resolve()
  }
  t.teardown(end)
  return { next: () => waiting.shift()?.(), pass: set(false), hold: set(true), end, waiting: () => waiting.length }
}
