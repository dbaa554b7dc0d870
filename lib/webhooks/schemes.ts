/** The schemes of signed webhooks, by their names in documents. */
import { createHash, createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { formOf, isForm } from './form.js'
import { anyEqual, type Delivery, idOr, invalid, maxSignatures, memberOf, requireSigned, requireTime, type Scheme } from './scheme.js'

export const algorithms = ['sha256', 'sha512', 'sha1'] as const
export const encodings = ['hex', 'base64'] as const

interface CustomOptions {
  /** The header of the signature, which may begin with `<algorithm>=`. */
  readonly header: string
  /** Default: `sha256`. */
  readonly algorithm?: typeof algorithms[number] | undefined
  /** Default: either. */
  readonly encoding?: typeof encodings[number] | undefined
}

/** Any service that signs only its body: an HMAC in a header, in hexadecimal or base64, without a time and an id. */
export function custom ({ header, algorithm = 'sha256', encoding }: CustomOptions): Scheme {
  const name = header.toLowerCase()
  const prefix = `${algorithm}=`
  const accepted = encoding === undefined ? encodings : [encoding]
  return {
    headers: [name],
    verify ({ body, headers }, secrets) {
      const text = headers[name]
      if (typeof text !== 'string') throw invalid('a signature')
      const given = text.startsWith(prefix) ? text.slice(prefix.length) : text
      requireSigned(secrets, (secret) => {
        const right = createHmac(algorithm, secret).update(body).digest()
        // Hexadecimal ignores case, base64 does not.
        return accepted.some((form) => anyEqual([form === 'hex' ? given.toLowerCase() : given], right.toString(form)))
      })
    },
    idOf: ({ body }) => idOr(undefined, body)
  }
}

const githubHeader = 'x-hub-signature-256'

/** GitHub's scheme: `x-hub-signature-256: sha256=<hex>`, an HMAC-SHA256 of the body. Time, delivery and event are not signed. */
const github: Scheme = {
  headers: [githubHeader, 'x-github-delivery'],
  verify ({ body, headers: { [githubHeader]: given } }, secrets) {
    if (typeof given !== 'string') throw invalid('a signature')
    requireSigned(secrets, (secret) => anyEqual([given], `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`))
  },
  idOf: ({ body, headers }) => idOr(headers['x-github-delivery'], body),
  // The header is not signed.
  signedIdOf: ({ body }) => idOr(undefined, body)
}

const [signature, timestamp] = ['x-slack-signature', 'x-slack-request-timestamp']

/** Slack's scheme: `x-slack-signature: v0=<hex>`, an HMAC-SHA256 of `v0:<time>:<body>`. */
const slack: Scheme = {
  headers: [signature, timestamp],
  verify ({ body, headers: { [signature]: given, [timestamp]: at }, now }, secrets) {
    const time = requireTime(at, now)
    if (typeof given !== 'string') throw invalid('a signature')
    requireSigned(
      secrets,
      (secret) => anyEqual([given], `v0=${createHmac('sha256', secret).update(`v0:${time}:`).update(body).digest('hex')}`)
    )
  },
  // Commands and interactions have no id: a repetition has the same time.
  idOf: ({ body, headers }, payload) => idOr(memberOf(payload, 'event_id'), String(headers[timestamp]), body)
}

/** Slack's check of an address before it sends events: the text of the response. null for any other event. */
export function challengeOf (payload: unknown): string | null {
  const challenge = memberOf(payload, 'type') === 'url_verification' ? memberOf(payload, 'challenge') : undefined
  return typeof challenge === 'string' ? challenge : null
}

/**
 * Standard Webhooks, the scheme of payprov: `webhook-signature` has an HMAC-SHA256 of `<id>.<timestamp>.<body>`. Unlike the package
 * `standardwebhooks`, this code uses the caller's clock, signs the bytes of the body, and accepts each form of secret that payprov uses.
 */
const standard: Scheme = {
  headers: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
  verify ({ body, headers, now }, secrets) {
    verified(body, headers, secrets.flatMap(keysOf), now)
  },
  idOf: ({ body, headers }) => idOr(headers['webhook-id'], body)
}

/** The id and the time of a correctly signed message; throws `signatureInvalid` otherwise. */
export function verified (body: Buffer, headers: IncomingHttpHeaders, keys: readonly Buffer[], now: number): { id: string, at: Date } {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(id)) throw invalid('a valid id')
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

const stripeHeader = 'stripe-signature'

/** Stripe's scheme, used by altprov: `stripe-signature: t=<time>,v1=<hex>,...`, an HMAC-SHA256 of `<time>.<body>`. */
export const stripe: Scheme = {
  headers: [stripeHeader],
  verify ({ body, headers: { [stripeHeader]: header }, now }, secrets) {
    if (typeof header !== 'string') throw invalid('a signature')
    const parts = header.split(',', maxSignatures)
    // Several times are refused.
    const times = parts.filter((part) => part.startsWith('t='))
    if (times.length !== 1) throw invalid('a single time')
    const time = requireTime(times[0]?.slice(2), now)
    const given = parts.flatMap((part) => part.startsWith('v1=') ? [part.slice(3)] : [])
    requireSigned(secrets, (secret) => anyEqual(given, createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')))
  },
  idOf: ({ body }, payload) => idOr(memberOf(payload, 'id'), body)
}

const twilioHeader = 'x-twilio-signature'

/** Twilio's scheme: an HMAC-SHA1 of the called address, and of the sorted form or, within the address, of `bodySHA256`. It has no time. */
const twilio: Scheme = {
  headers: [twilioHeader],
  verify (delivery, secrets) {
    const given = delivery.headers[twilioHeader]
    if (typeof given !== 'string') throw invalid('a signature')
    const fields = signedFields(delivery)
    const addresses = delivery.origins.flatMap((origin) => addressesOf(origin + delivery.target))
    requireSigned(
      secrets,
      (secret) => anyEqual(addresses.map((address) => createHmac('sha1', secret).update(address).update(fields).digest('base64')), given)
    )
  },
  // The same fields in another order or encoding have the same signature. The caller chooses the host.
  idOf: (delivery) => idOr(undefined, delivery.target, signedFields(delivery))
}

/** The signed data beside the address; throws for a body without a signature. */
function signedFields ({ body, headers, target }: Delivery): string {
  const [hash, second] = new URLSearchParams(/\?(.*)$/s.exec(target)?.[1] ?? '').getAll('bodySHA256')
  if (hash !== undefined) {
    if (second !== undefined || !anyEqual([hash.toLowerCase()], createHash('sha256').update(body).digest('hex'))) {
      throw invalid('a body that matches the hash in its address')
    }
    return ''
  }
  if (body.length === 0) return ''
  const form = isForm(headers['content-type']) ? formOf(body) : null
  if (form === null) throw invalid('a form as its body, or the hash of its body in its address')
  let text = ''
  for (const field of Object.keys(form).sort()) {
    for (const value of [...new Set([form[field] ?? []].flat())].sort()) text += field + value
  }
  return text
}

const address = /^(https?:\/\/)([^/?#:]+|\[[^\]]*\])(:\d+)?(.*)$/i

/** With and without the port: Twilio signs either, independently of the address. */
function addressesOf (url: string): readonly string[] {
  const [, origin = '', host = '', port, rest = ''] = address.exec(url) ?? []
  const usual = origin.toLowerCase() === 'https://' ? ':443' : ':80'
  return port === undefined ? [url, origin + host + usual + rest] : [url, origin + host + rest]
}

export type { Delivery, Scheme } from './scheme.js'
export { isRepeated } from './scheme.js'

export const webhookProviders = ['payprov', 'altprov', 'github', 'slack', 'twilio', 'custom'] as const
export type WebhookProvider = typeof webhookProviders[number]

/** Schemes without further settings in the document. */
export const schemes: Readonly<Record<Exclude<WebhookProvider, 'custom'>, Scheme>> = {
  payprov: standard,
  altprov: stripe,
  github,
  slack,
  twilio
}
