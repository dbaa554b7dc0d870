/**
 * The declared routes that accept the header Idempotency-Key: POSTs that write, call another service, run a workflow or send a
 * message. Webhooks are excluded, because their senders identify deliveries in other ways.
 */
import type { CompiledRoute } from './route.js'

type Parts = Pick<CompiledRoute, 'method' | 'webhook' | 'workflow' | 'realtime'> & {
  readonly writes: readonly unknown[],
  readonly integrations: readonly unknown[]
}

export function takesIdempotencyKey ({ method, webhook, writes, integrations, workflow, realtime }: Parts): boolean {
  return method === 'POST' && webhook === null && (writes.length > 0 || integrations.length > 0 || workflow !== null || realtime !== null)
}
