/** The places of outbound webhooks' secrets among the values of a tenant (lib/secrets/cipher.ts); keys of tenants contain no slash. */
import type { Owner } from '../identity/tenant-ref.js'
import type { SecretPlace } from './cipher.js'

/** The generated secret, which signs without another one. */
export function webhookSecretPlace (tenant: Owner): SecretPlace {
  return { tenant, key: 'webhooks/secret', version: 1 }
}

/** Address and secret of a callback, as JSON. */
export function callbackPlace (tenant: Owner, delivery: string): SecretPlace {
  return { tenant, key: `webhooks/callback/${delivery}`, version: 1 }
}
