/** The parts that all schemes of signed webhooks share. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type {} from 'fastify'
import { failure, type TenantryError } from '../errors.js'

/** Characters of a signing secret, as many as a tenant's secret has. A text with many copies of one would take long for each delivery. */
export const maxSigningSecret = 65_536

/** A received request, before its body is parsed. */
export interface Delivery {
  readonly body: Buffer
  readonly headers: IncomingHttpHeaders
  /** The path of the called address, with its query string. */
  readonly target: string
  /** The beginnings of the address, before `target`: as in the request, and the public one of the app. */
  readonly origins: readonly string[]
  /** The time, in milliseconds since 1970. */
  readonly now: number
}

export interface Scheme {
  /** The headers of the signature, in lower case. A repeated one is invalid, see `isRepeated`. */
  readonly headers: readonly string[]
  /** Throws `signatureInvalid` unless one of the secrets signed the delivery, within five minutes if the scheme has a time. */
  verify(delivery: Delivery, secrets: readonly string[]): void
  /** The id of the delivery, equal for repetitions: 1 to 255 visible ASCII characters. */
  idOf(delivery: Delivery, payload: unknown): string
  /** The same, from signed parts only. Default: `idOf`. */
  signedIdOf?(delivery: Delivery): string
}

const tolerance = 300 // s, before and after
export const maxSignatures = 20 // of one header; a rotation needs two

/** 401. `lacking`: the reason, which is logged and never sent. */
export function invalid (lacking: string): TenantryError {
  return failure('signatureInvalid', { cause: new Error(`the webhook lacks ${lacking}`) })
}

/** The time of a signature in seconds; throws for an invalid or outdated one. */
export function requireTime (text: unknown, now: number): string {
  if (typeof text !== 'string' || !/^[1-9]\d{0,11}$/.test(text)) throw invalid('a valid time')
  if (Math.abs(Math.floor(now / 1000) - Number(text)) > tolerance) throw invalid('a current timestamp')
  return text
}

/** Throws unless one of the secrets signed the content; empty secrets are ignored. */
export function requireSigned<Secret extends string | Buffer> (secrets: readonly Secret[], isSignedBy: (secret: Secret) => boolean): void {
  let found = false
  for (const secret of secrets) if (secret.length > 0 && isSignedBy(secret)) found = true
  if (!found) throw invalid('a valid signature')
}

/** Whether one of the texts equals the other, in constant time. */
export function anyEqual (texts: readonly string[], other: string): boolean {
  const expected = Buffer.from(other)
  let found = false
  for (const text of texts) {
    const bytes = Buffer.from(text)
    if (bytes.length === expected.length && timingSafeEqual(bytes, expected)) found = true
  }
  return found
}

/** The service's id, or the signed bytes if there is no usable id. */
export function idOr (given: unknown, ...signed: ReadonlyArray<string | Buffer>): string {
  if (typeof given === 'string' && /^[\x21-\x7e]{1,255}$/.test(given)) return given
  const hash = createHash('sha256')
  for (const part of signed) hash.update(part).update('\n')
  return `sha256:${hash.digest('base64url')}`
}

/** Node joins the values of a repeated header, which could hide wrong signatures beside a right one. */
export function isRepeated (rawHeaders: readonly string[], names: readonly string[]): boolean {
  const seen = new Set<string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]?.toLowerCase() ?? ''
    if (!names.includes(name)) continue
    if (seen.has(name)) return true
    seen.add(name)
  }
  return false
}

/** An own member of an event. */
export function memberOf (payload: unknown, name: string): unknown {
  return typeof payload === 'object' && payload !== null && Object.hasOwn(payload, name) ? Reflect.get(payload, name) : undefined
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The signature of a webhook was verified. */
    signed: boolean
  }
}
