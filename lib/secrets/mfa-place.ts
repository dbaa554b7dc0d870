/** The place of second factors among the values of a tenant (lib/secrets/cipher.ts). */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

/** Of a user; keys of tenants' secrets contain no slash. */
export function mfaPlace (tenant: Owner, userId: string, version: number): SecretPlace {
  return { tenant, key: `mfa/${userId}`, version }
}
