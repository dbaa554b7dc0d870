/** Checks of the section `auth` beyond its schema: the needs of registration. */
import type { FaultList } from '../../schema/faults.js'
import type { Auth } from '../../schema/auth.js'
import type { Jwt } from '../../schema/jwt.js'

/** Whether the server issues tokens. */
export function canSign ({ secret, privateKey }: Pick<Jwt, 'secret' | 'privateKey'>): boolean {
  return secret !== undefined || privateKey !== undefined
}

/**
 * @param context.signs the document has a key to sign tokens with
 * @param context.off the groups of endpoints that it turns off
 */
export function checkAuth (
  { registration }: Auth,
  { signs, off }: { readonly signs: boolean, readonly off: ReadonlySet<string> },
  faults: FaultList
): void {
  if (registration === 'closed') return
  if (!signs) {
    faults.add(
      '/auth/registration',
      'is `open` without a signing key for tokens: expected a key in the section `jwt`, or the setting JWT_SECRET'
    )
  }
  if (off.has('login')) faults.add('/auth/registration', 'is `open`, but `plugins.login` is false: change one of them')
}
