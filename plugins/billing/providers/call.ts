/**
 * A call of a payment provider: its timeout, its bounded retries, and its failures. Both adapters and tenants' billing use it. An adapter
 * throws a `ProviderFault` if the provider refuses; any other error means that no response arrived.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, type TSchema, Type } from 'typebox'
import { inTurnOf } from '../../../lib/concurrency/event-loop-yielder.js'
import { failure, isFailure, retryIn, TenantryError } from '../../../lib/errors.js'
import { serverRef, type TenantRef } from '../../../lib/identity/tenant-ref.js'
import { jsonExcess, parseBounded } from '../../../lib/json/bounds.js'
import { retryAfterOf } from '../../../lib/time/retry-after.js'
import { lazyValidator } from '../../../lib/validation/validator.js'

const tryTime = 5000 // ms for one try
const callTime = 10_000 // ms for a call with its retries, unless the caller sets another time
const maxTries = 3
const firstWait = 200 // ms before the second try; doubled for the third
const maxReason = 300 // characters
const defaultRetryAfter = 5 // s, where a provider that limits the rate does not say

const maxResponseBytes = 5 * 1_048_576

/**
 * A failure of a provider: `key`: it does not accept the key; `missing`: the named object does not exist; `refused`: it does not accept the
 * values; `busy`: it limits the rate; `failed`: an internal failure; `unreadable`: an undocumented response.
 */
export type FaultKind = 'key' | 'missing' | 'refused' | 'busy' | 'failed' | 'unreadable'

interface FaultDetails {
  /** For the log, without keys. */
  readonly message: string
  /** The provider's text about the values, for the caller: cleaned by `cleanReason`. */
  readonly reason?: string | undefined
  /** Seconds until a retry, if the provider limits the rate. */
  readonly retryAfter?: number | undefined
}

/** A failed call of a provider. */
export class ProviderFault extends Error {
  readonly kind: FaultKind
  readonly reason: string | undefined
  readonly retryAfter: number | undefined

  constructor (kind: FaultKind, { message, reason, retryAfter }: FaultDetails) {
    super(message)
    this.name = 'ProviderFault'
    this.kind = kind
    this.reason = reason
    this.retryAfter = retryAfter
  }
}

/** The meaning of an HTTP status, unless the provider documents another one for the call. */
export function kindOfStatus (status: number): FaultKind {
  if (status === 401 || status === 403) return 'key'
  if (status === 404 || status === 410) return 'missing'
  if (status === 429) return 'busy'
  return status !== 408 && status >= 400 && status < 500 ? 'refused' : 'failed'
}

/** The provider's text for a caller: one line, 300 characters at most, without the key and similar texts. undefined if nothing is left. */
export function cleanReason (text: string, key: string): string | undefined {
  const cleaned = (key === '' ? text : text.replaceAll(key, '[key]'))
    .replace(/\b(?:polar|sk|rk|pk|whsec)_[\w*-]{4,}/g, '[key]')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
  if (cleaned === '') return undefined
  return [...cleaned].slice(0, maxReason).join('')
}

/** Checks a key before an SDK creates headers with it: for other characters `Headers` throws an error that contains the value. */
export function checkHeaders (name: string, values: readonly string[]): void {
  if (values.every((value) => /^[\x21-\x7e]{1,1024}$/.test(value))) return
  throw new ProviderFault('key', { message: `${name} must contain only visible ASCII characters` })
}

/**
 * The body of a success, read to its end and within the bounds of JSON from outside, for an SDK to parse. Throws a ProviderFault for other
 * responses.
 *
 * @param outcome describes the call and its status, for the log
 * @param refusalOf reads the provider's form of a refusal: the kind of fault, and the text for the caller
 * @param tenant the owner of the account, in whose turn the body is read. Default: the platform
 */
export async function readResponse (
  response: Response,
  outcome: string,
  key: string,
  refusalOf: (body: Readonly<Record<string, unknown>>) => { readonly kind: FaultKind, readonly reason: string | undefined },
  tenant: TenantRef = serverRef
): Promise<Response> {
  const text = await readText(response)
  return await inTurnOf(tenant, () => {
    if (response.ok) {
      const excess = jsonExcess(text)
      if (excess !== null) throw new ProviderFault('unreadable', { message: `a response whose JSON ${excess}` })
      // Without the headers: Stripe's SDK would print a notice from one of them.
      return new Response(text)
    }
    const { kind, reason } = refusalOf(membersOf(text))
    const cleaned = reason === undefined ? undefined : cleanReason(reason, key)
    throw new ProviderFault(kind, {
      message: cleaned === undefined ? outcome : `${outcome}: ${cleaned}`,
      reason: cleaned,
      retryAfter: retryAfterOf(response.headers.get('retry-after'))
    })
  })
}

/** A response's body, read to its end. Throws a ProviderFault if it is too large. */
async function readText (response: Response): Promise<string> {
  if (response.body === null) return ''
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body) {
    length += chunk.byteLength
    if (length > maxResponseBytes) throw new ProviderFault('unreadable', { message: `a response of more than ${maxResponseBytes} bytes` })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** The members of a JSON object; none of another text. */
function membersOf (text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(parseBounded(text))
  } catch {
    return {}
  }
}

/** The shared time limit of one endpoint's calls. */
export class CallTime {
  readonly #endsAt: number

  /** `milliseconds` from now. Default: 10,000. */
  constructor (milliseconds: number = callTime) {
    this.#endsAt = performance.now() + milliseconds
  }

  /** The remaining whole milliseconds, 0 afterwards. Timers may end a fraction of one early. */
  left (): number {
    return Math.max(0, Math.floor(this.#endsAt - performance.now()))
  }
}

export interface CallOptions {
  readonly time: CallTime
  /** The owner of the key: for `tenant` a refused key is 424, since the tenant has to replace it. */
  readonly keyOwner: 'platform' | 'tenant'
  /** The call may be repeated even if the provider may have done it: it reads, or has an idempotency key. */
  readonly repeatable: boolean
}

/**
 * Runs one call: at most three tries of 5 s each, within the time. `run` ends its requests when the signal aborts. Throws
 * `providerTimeout`, `providerFailed`, `providerBusy`, `providerRefused`, `providerKeyRefused` or `notFound`; a TenantryError of `run` is
 * passed on.
 */
export async function callProvider<T> (options: CallOptions, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  for (let number = 1; ; number++) {
    if (options.time.left() === 0) throw failure('providerTimeout')
    const end = new AbortController()
    const timer = setTimeout(() => end.abort(), Math.min(tryTime, options.time.left()))
    try {
      return await run(end.signal)
    } catch (error) {
      const isTimedOut = end.signal.aborted
      // Further requests of the try.
      end.abort()
      const wait = number < maxTries ? waitBefore(number, error, options) : undefined
      if (wait === undefined) throw failureOf(error, isTimedOut, options)
      await sleep(wait)
    } finally {
      clearTimeout(timer)
    }
  }
}

/** The result of the call; null if the named object does not exist. */
export async function orNull<T> (call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (isFailure(error, 'notFound')) return null
    throw error
  }
}

/** Milliseconds until the next try; undefined for no further try. */
function waitBefore (number: number, error: unknown, { time, repeatable }: CallOptions): number | undefined {
  if (error instanceof TenantryError) return undefined
  const kind = error instanceof ProviderFault ? error.kind : 'failed'
  // A rate limit refuses before anything is done.
  if (kind !== 'busy' && !(kind === 'failed' && repeatable)) return undefined
  const asked = error instanceof ProviderFault ? error.retryAfter : undefined
  const wait = asked === undefined ? firstWait * 2 ** (number - 1) * (0.5 + Math.random() / 2) : asked * 1000
  return wait < time.left() ? wait : undefined
}

function failureOf (error: unknown, isTimedOut: boolean, { keyOwner }: CallOptions): TenantryError {
  if (error instanceof TenantryError) return error
  if (!(error instanceof ProviderFault)) return failure(isTimedOut ? 'providerTimeout' : 'providerFailed', { cause: error })
  switch (error.kind) {
    case 'key':
      return failure(keyOwner === 'tenant' ? 'providerKeyRefused' : 'providerFailed', { cause: error })
    case 'missing':
      return failure('notFound', { cause: error })
    case 'refused':
      return failure('providerRefused', {
        cause: error,
        ...error.reason !== undefined && { message: `The provider does not accept these values: ${error.reason}` }
      })
    case 'busy':
      return failure('providerBusy', { cause: error, ...retryIn(Math.max(1, error.retryAfter ?? defaultRetryAfter)) })
    case 'failed':
    case 'unreadable':
      return failure('providerFailed', { cause: error })
  }
}

/** An id, or the name of a kind, that fits the database and paths: visible ASCII characters. */
export const Id = (maxLength: number) => Type.String({ maxLength, pattern: '^[\\x21-\\x7e]+$' })

/** A time of RFC 3339. `Date` parses all of them except leap seconds, which are refused. */
export const Time = Type.String({
  format: 'date-time',
  maxLength: 64,
  pattern: '^[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-5][0-9](?:\\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$'
})

/** Creates the reader of a documented value; further members are ignored. Throws a ProviderFault that names the first fault. */
export function documented<S extends TSchema> (name: string, schema: S): (value: unknown) => Static<S> {
  const validate = lazyValidator(schema, 'body')
  const isValid = (value: unknown): value is Static<S> => validate(value) === null
  return (value) => {
    if (isValid(value)) return value
    const [first] = validate(value) ?? []
    throw new ProviderFault('unreadable', { message: `the response is not ${name}: ${first?.instancePath ?? ''} ${first?.message ?? ''}` })
  }
}

/** The event of a text with a valid signature. Throws `badRequest` for an undocumented text: the sender is at fault. */
export function readSigned<Event> (text: string, read: (value: unknown) => Event): Event {
  try {
    return read(parseSigned(text))
  } catch (cause) {
    if (cause instanceof ProviderFault) throw failure('badRequest', { message: "The event does not match the provider's documentation", cause })
    throw cause
  }
}

function parseSigned (text: string): unknown {
  try {
    return parseBounded(text)
  } catch (error) {
    throw new ProviderFault('unreadable', { message: `the body cannot be read: ${String(error)}` })
  }
}
