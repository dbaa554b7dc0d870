/** The place of kept responses among the values of a tenant (lib/secrets/cipher.ts); keys of tenants contain no slash. */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

export function idempotencyPlace (tenant: Owner, id: Buffer): SecretPlace {
  return { tenant, key: `idempotency/${id.toString('hex')}`, version: 1 }
}
