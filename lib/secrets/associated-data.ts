/**
 * The places, beside secrets, of what the server encrypts for a tenant. The cipher binds each value to its place as associated
 * data (cipher.ts). No key of a tenant's secret has a slash in it.
 */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

/** A response that is kept under an idempotency key. */
export function idempotencyPlace (tenant: Owner, id: Buffer): SecretPlace {
  return { tenant, key: `idempotency/${id.toString('hex')}`, version: 1 }
}

/** The second factor of a user. */
export function mfaPlace (tenant: Owner, userId: string, version: number): SecretPlace {
  return { tenant, key: `mfa/${userId}`, version }
}

/** The generated secret that signs webhooks where no other is named. */
export function webhookSecretPlace (tenant: Owner): SecretPlace {
  return { tenant, key: 'webhooks/secret', version: 1 }
}

/** Address and secret of a callback, as JSON. */
export function callbackPlace (tenant: Owner, delivery: string): SecretPlace {
  return { tenant, key: `webhooks/callback/${delivery}`, version: 1 }
}
