/** Checks of the section `mfa` beyond its schema: the needs of `enabled: true`. */
import type { FaultList } from '../../schema/faults.js'
import type { Mfa } from '../../schema/mfa.js'

/**
 * @param context.jwt the document has a section `jwt`
 * @param context.off the groups of endpoints that it turns off
 */
export function checkMfa (
  { enabled }: Mfa,
  { jwt, off }: { readonly jwt: boolean, readonly off: ReadonlySet<string> },
  faults: FaultList
): void {
  if (enabled !== true) return
  if (!jwt) {
    faults.add('/mfa/enabled', 'is true without the section `jwt` or the setting JWT_SECRET: second factors require users with tokens')
  }
  if (off.has('mfa')) faults.add('/mfa/enabled', 'is true, but `plugins.mfa` is false: change one of them')
}
