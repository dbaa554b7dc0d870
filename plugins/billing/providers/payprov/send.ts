/** One request to Polar: bounded, without redirects, with Polar's documented failures. */
import { createHash } from 'node:crypto'
import { parseBounded } from '../../../../lib/json/bounds.js'
import { readText, cleanReason, kindOfStatus, ProviderFault, requireBounded, retryAfterOf, type FaultKind } from '../call.js'

export interface Sender {
  readonly accessToken: string
  readonly idempotencyKey: string | undefined
  readonly signal: AbortSignal
}

/** Valid characters of a header: for others `Headers` throws an error that contains the value. */
const headerText = /^[\x21-\x7e]{1,1024}$/

/** A path with a segment that URL parsing would remove, such as an id of `..`. */
const otherPath = /\/\.{0,2}\/|\/\.{1,2}$/

/** 403 responses of Polar that concern the subscription, not the key. */
const statesOfSubscription = new Set(['AlreadyCanceledSubscription', 'InactiveSubscription', 'PaymentNotReady', 'TrialingSubscription'])

/** Checks the key before the SDK creates headers with it. */
export function checkKey (accessToken: string, organizationId: string | undefined): void {
  if (headerText.test(accessToken) && (organizationId === undefined || headerText.test(organizationId))) return
  throw new ProviderFault('key', { message: 'the access token and the id of the organization must contain only visible ASCII characters' })
}

/** The body of a success, read to its end. Throws a ProviderFault for other responses. */
export async function send (url: string, request: RequestInit, { accessToken, idempotencyKey, signal }: Sender): Promise<Response> {
  const method = request.method ?? 'GET'
  const { pathname } = new URL(url)
  if (otherPath.test(url.slice(url.indexOf('://') + 2).split('?')[0] ?? '')) {
    throw new ProviderFault('missing', { message: 'an id that is a part of a path' })
  }
  const headers = new Headers(request.headers)
  if (idempotencyKey !== undefined && method !== 'GET') {
    headers.set('idempotency-key', keyOfRequest(idempotencyKey, method, pathname, request.body))
  }
  const response = await fetch(url, { ...request, headers, signal, redirect: 'manual' })
  const text = await readText(response)
  if (response.ok) return new Response(requireBounded(text))
  throw faultOf(response, text, `${method} ${pathname}`, accessToken)
}

/** A call may send several requests under one key, so each gets its own. */
function keyOfRequest (key: string, method: string, path: string, body: unknown): string {
  return createHash('sha256').update(JSON.stringify([key, method, path, typeof body === 'string' ? body : ''])).digest('base64url')
}

function faultOf (response: Response, text: string, call: string, accessToken: string): ProviderFault {
  const { name, reason } = refusalOf(text)
  const cleaned = reason === undefined ? undefined : cleanReason(reason, accessToken)
  const kind: FaultKind = response.status === 403 && name !== undefined && statesOfSubscription.has(name)
    ? 'refused'
    : kindOfStatus(response.status)
  return new ProviderFault(kind, {
    message: `payprov responded with ${response.status} to ${call}${cleaned === undefined ? '' : `: ${cleaned}`}`,
    reason: cleaned,
    retryAfter: retryAfterOf(response.headers.get('retry-after'))
  })
}

/** Polar's two forms: `{error, detail}` with a text, and 422 with a list of faults. */
function refusalOf (text: string): { name?: string | undefined, reason?: string | undefined } {
  let body: unknown
  try {
    body = parseBounded(text)
  } catch {
    return {}
  }
  const { error, detail }: { error?: unknown, detail?: unknown } = Object(body)
  return {
    name: typeof error === 'string' ? error : undefined,
    reason: Array.isArray(detail) ? detail.slice(0, 3).map(fieldReason).join('; ') : typeof detail === 'string' ? detail : undefined
  }
}

function fieldReason (item: unknown): string {
  const { loc, msg }: { loc?: unknown, msg?: unknown } = Object(item)
  // The first part is the place in the request, such as `body`.
  const field = Array.isArray(loc) ? loc.slice(1, 6).map(String).join('.') : ''
  return typeof msg === 'string' ? `${field === '' ? '' : `${field}: `}${msg}` : field
}
