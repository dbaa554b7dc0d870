/** Signatures of outgoing requests, according to Standard Webhooks. */
import { createHmac, randomUUID } from 'node:crypto'
import { failure } from '../errors.js'

export const maxSecret = 1000 // characters

/**
 * The headers that sign a body: `webhook-id`, `webhook-timestamp` and `webhook-signature`. The secret is `whsec_<base64>`, or its own bytes
 * are the key.
 *
 * @param id of the message; the same for a repetition. Default: a new one.
 * @param now milliseconds since 1970. Default: the system's clock.
 */
export function signedHeaders (secret: unknown, body: string, id = `msg_${randomUUID()}`, now = Date.now()): Record<string, string> {
  const key = typeof secret !== 'string' || secret.length > maxSecret ? null : keyOf(secret)
  if (key === null || key.length === 0) throw failure('credentialsRequired', { message: 'The signing secret of the webhook is missing' })
  const timestamp = String(Math.floor(now / 1000))
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

function keyOf (secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)
}
