/**
 * The places of outbound webhooks' secrets among the values of a tenant (lib/secrets/cipher.ts); no key of a tenant's own has a
 * slash in it.
 */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

/** The generated secret that signs where no other is named. */
export function webhookSecretPlace (tenant: Owner): SecretPlace {
  return { tenant, key: 'webhooks/secret', version: 1 }
}

/** Address and secret of a callback, as JSON. */
export function callbackPlace (tenant: Owner, delivery: string): SecretPlace {
  return { tenant, key: `webhooks/callback/${delivery}`, version: 1 }
}
