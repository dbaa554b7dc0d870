/** Idempotency keys: the provider refuses a repeated key with other content, so the key includes the content. */
import { createHash } from 'node:crypto'

export function keyOf (...content: readonly unknown[]): string {
  return `tenantry-${createHash('sha256').update(JSON.stringify(content)).digest('base64url')}`
}
