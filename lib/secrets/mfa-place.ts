/** The place of second factors among the values of a tenant (lib/secrets/cipher.ts). */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

/** Of a user; no key of a tenant's secret has a slash in it. */
export function mfaPlace (tenant: Owner, userId: string, version: number): SecretPlace {
  return { tenant, key: `mfa/${userId}`, version }
}
