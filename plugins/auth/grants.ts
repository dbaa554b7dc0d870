/** Callers can grant only permissions that they hold. */
import { failure } from '../../lib/errors.js'
import { grants, type PermissionSet } from './permissions.js'

/** Throws `grantExceeds` with the missing permission, unless all are held. Administrators hold everything. */
export function requireGrant (held: PermissionSet, permissions: Iterable<string>): void {
  for (const permission of permissions) {
    if (grants(held, permission)) continue
    throw failure('grantExceeds', {
      message: `You do not have the permission "${permission}", so you cannot grant it`,
      extras: { permission }
    })
  }
}
