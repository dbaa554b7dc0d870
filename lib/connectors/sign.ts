/** Signatures of what is sent, as Standard Webhooks has them. */
import { createHmac, randomUUID } from 'node:crypto'
import { failure } from '../errors.js'

const maxSecret = 1000 // characters

/** The headers that sign a body: `webhook-id`, `webhook-timestamp` and `webhook-signature`. The secret is `whsec_<base64>`, or stands for its own bytes. */
export function signedHeaders (secret: unknown, body: string): Record<string, string> {
  if (typeof secret !== 'string' || secret === '' || secret.length > maxSecret) {
    throw failure('credentialsRequired', { message: 'The signing secret of the webhook is missing' })
  }
  const id = `msg_${randomUUID()}`
  const timestamp = String(Math.floor(Date.now() / 1000))
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

function keyOf (secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)
}
