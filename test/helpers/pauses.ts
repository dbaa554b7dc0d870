import type { Test } from 'tap'
import { tenantAccount, turns } from '../../lib/pace.js'

/** Keeps the long work of a tenant in its pause, as if it had worked for long beside others, until `end` is called. */
export function holdInPause (t: Test, tenant: string): { end (): void } {
  const pace = turns.pace(tenantAccount(tenant))
  const charge = (): void => {
    turns.heard('another account')
    turns.heard(tenantAccount(tenant))
    // In a pause nothing is due, and the pause that is owed lasts.
    if (!pace.due()) pace.done(104_857_600)
  }
  charge()
  const timer = setInterval(charge, 2)
  const end = (): void => clearInterval(timer)
  t.teardown(end)
  return { end }
}
