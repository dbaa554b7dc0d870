/**
 * Standard Webhooks, the scheme of payprov: `webhook-signature` has an HMAC-SHA256 of `<id>.<timestamp>.<body>`. Unlike the package
 * `standardwebhooks`, this code uses the caller's clock, signs the bytes of the body, and accepts each form of secret that payprov uses.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { createHmac } from 'node:crypto'
import { anyEqual, idOr, invalid, maxSignatures, requireSigned, requireTime, type Scheme } from './scheme.js'

export const standard: Scheme = {
  headers: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
  verify ({ body, headers, now }, secrets) {
    verified(body, headers, secrets.flatMap(keysOf), now)
  },
  idOf: ({ body, headers }) => idOr(headers['webhook-id'], body)
}

/** The id and the time of a correctly signed message; throws `signatureInvalid` otherwise. */
export function verified (body: Buffer, headers: IncomingHttpHeaders, keys: readonly Buffer[], now: number): { id: string, at: Date } {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(id)) throw invalid('its id')
  const timestamp = requireTime(time, now)
  if (typeof signatures !== 'string') throw invalid('a signature')
  const given = signatures.split(' ', maxSignatures).flatMap((signature) => signature.startsWith('v1,') ? [signature.slice(3)] : [])
  requireSigned(keys, (key) => anyEqual(given, createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')))
  return { id, at: new Date(Number(timestamp) * 1000) }
}

/** The possible keys of a secret: its own bytes, and if it is base64, with or without `whsec_`, the decoded bytes. */
export function keysOf (secret: string): Buffer[] {
  if (secret === '') return []
  const encoded = secret.replace(/^whsec_/, '')
  return /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/.test(encoded)
    ? [Buffer.from(secret), Buffer.from(encoded, 'base64')]
    : [Buffer.from(secret)]
}
