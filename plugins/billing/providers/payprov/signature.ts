/**
 * Signatures of the Standard Webhooks scheme: `webhook-signature` has an HMAC-SHA256 of `<id>.<timestamp>.<body>`. The
 * package `standardwebhooks` reads the machine's clock and takes one form of a secret; here the clock is the caller's,
 * the body is signed as its bytes, and a secret may have each form that payprov gives it (DESIGN 8).
 */
import type { IncomingHttpHeaders } from 'node:http'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { failure } from '../../../../lib/errors.js'

const tolerance = 5 * 60 // s, in both directions
const maxSignatures = 20 // of a header; a secret is rotated with two

/** The id and the time of a message whose signature is right by one of the keys; throws `signatureInvalid` otherwise. */
export function verified (body: Buffer, headers: IncomingHttpHeaders, keys: readonly Buffer[], now: number): { id: string, at: Date } {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(id)) throw invalid('its id')
  if (typeof timestamp !== 'string' || !/^[1-9]\d{0,11}$/.test(timestamp)) throw invalid('its time')
  if (Math.abs(Math.floor(now / 1000) - Number(timestamp)) > tolerance) throw invalid('its time, which is too long ago or yet to come')
  if (typeof signatures !== 'string') throw invalid('a signature')
  const given = signatures.split(' ', maxSignatures).flatMap((signature) => signature.startsWith('v1,') ? [Buffer.from(signature.slice(3))] : [])
  let isRight = false
  for (const key of keys) {
    const right = Buffer.from(createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64'))
    for (const signature of given) if (signature.length === right.length && timingSafeEqual(signature, right)) isRight = true
  }
  if (!isRight) throw invalid('a signature of its own')
  return { id, at: new Date(Number(timestamp) * 1000) }
}

/**
 * What a secret may stand for: its own bytes, and where it is base64, with or without `whsec_` before it, what that
 * decodes to.
 */
export function keysOf (secret: string): Buffer[] {
  if (secret === '') return []
  const encoded = secret.replace(/^whsec_/, '')
  return /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/.test(encoded)
    ? [Buffer.from(secret), Buffer.from(encoded, 'base64')]
    : [Buffer.from(secret)]
}

function invalid (what: string) {
  return failure('signatureInvalid', { cause: new Error(`the webhook lacks ${what}`) })
}
