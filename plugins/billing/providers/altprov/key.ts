/** Idempotency keys: the provider refuses one that comes with other content than before, so the content is a part of it. */
import { createHash } from 'node:crypto'

export function keyOf (...content: readonly unknown[]): string {
  return `tenantry-${createHash('sha256').update(JSON.stringify(content)).digest('base64url')}`
}
