/** The place of kept responses among the values of a tenant (lib/secrets/cipher.ts); no key of a tenant's own has a slash in it. */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

export function idempotencyPlace (tenant: Owner, id: Buffer): SecretPlace {
  return { tenant, key: `idempotency/${id.toString('hex')}`, version: 1 }
}
