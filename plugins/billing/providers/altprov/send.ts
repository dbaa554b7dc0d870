/** One request to Stripe: bounded, without redirects, with Stripe's documented failures. */
import { parseBounded } from '../../../../lib/json/bounds.js'
import { readText, cleanReason, kindOfStatus, ProviderFault, requireBounded, retryAfterOf, type FaultKind } from '../call.js'

export interface ResponseHead {
  at: Date | null
  isReplay: boolean
}

export interface Sender {
  readonly apiKey: string
  readonly signal: AbortSignal
  readonly head: ResponseHead
}

/** The body of a success, read to its end. Throws a ProviderFault for other responses. */
export async function send (url: string, request: RequestInit | undefined, { apiKey, signal, head }: Sender): Promise<Response> {
  const begun = performance.now()
  const response = await fetch(url, { ...request, signal, redirect: 'manual' })
  head.at = timeOf(response.headers.get('date'), performance.now() - begun)
  head.isReplay = response.headers.get('idempotent-replayed') === 'true'
  const text = await readText(response)
  // Without the headers: the SDK would print a notice from one of them.
  if (response.ok) return new Response(requireBounded(text))
  throw faultOf(response, text, `${request?.method ?? 'GET'} ${new URL(url).pathname}`, apiKey)
}

/**
 * The `Date` of a response, minus its duration: a slow response shows the state at the time of the request, and must not seem newer than an
 * event in between.
 */
export function timeOf (date: string | null, took: number): Date | null {
  const sent = Date.parse(date ?? '')
  return Number.isNaN(sent) ? null : new Date(sent - Math.floor(took / 1000) * 1000)
}

function faultOf (response: Response, text: string, call: string, apiKey: string): ProviderFault {
  const { code, message } = refusalOf(text)
  const reason = message === undefined ? undefined : cleanReason(message, apiKey)
  return new ProviderFault(kindOf(response.status, code), {
    message: `altprov responded with ${response.status} to ${call} (${response.headers.get('request-id') ?? 'no request id'})${
      reason === undefined ? '' : `: ${reason}`
    }`,
    reason,
    retryAfter: retryAfterOf(response.headers.get('retry-after'))
  })
}

function kindOf (status: number, code: string | undefined): FaultKind {
  // A parameter that names a missing object is a 400.
  if (code === 'resource_missing') return 'missing'
  // 409: the same idempotency key is in use, or the object is locked. 424: a service that Stripe uses failed.
  if (status === 409 || code === 'rate_limit') return 'busy'
  return status === 424 ? 'failed' : kindOfStatus(status)
}

/** Stripe's form: `{error: {type, code?, message?, param?}}`. */
function refusalOf (text: string): { code?: string | undefined, message?: string | undefined } {
  let body: unknown
  try {
    body = parseBounded(text)
  } catch {
    return {}
  }
  const { error }: { error?: unknown } = Object(body)
  const { code, message }: { code?: unknown, message?: unknown } = Object(error)
  return { code: typeof code === 'string' ? code : undefined, message: typeof message === 'string' ? message : undefined }
}
