/** One request to Stripe: bounded, without redirects, with Stripe's documented failures. */
import { parseBounded } from '../../../../lib/json/bounds.js'
import { answerText, cleanReason, kindOfStatus, ProviderFault, requireBounded, retryAfterOf, type FaultKind } from '../call.js'

/** What the headers of an answer say. */
export interface Answered {
  at: Date | null
  isReplay: boolean
}

export interface Sender {
  readonly apiKey: string
  readonly signal: AbortSignal
  readonly answered: Answered
}

/** The answer of a success, read to its end. Throws a ProviderFault for any other. */
export async function send (url: string, request: RequestInit | undefined, { apiKey, signal, answered }: Sender): Promise<Response> {
  const begun = performance.now()
  const response = await fetch(url, { ...request, signal, redirect: 'manual' })
  answered.at = timeOf(response.headers.get('date'), performance.now() - begun)
  answered.isReplay = response.headers.get('idempotent-replayed') === 'true'
  const text = await answerText(response)
  // Without the headers: the SDK would print a notice that one of them may hold.
  if (response.ok) return new Response(requireBounded(text))
  throw faultOf(response, text, `${request?.method ?? 'GET'} ${new URL(url).pathname}`, apiKey)
}

/**
 * Of the `Date` of an answer that took so many ms. One that took seconds tells what was so when it was asked for: an event
 * of what happened meanwhile must not seem older than it.
 */
export function timeOf (date: string | null, took: number): Date | null {
  const sent = Date.parse(date ?? '')
  return Number.isNaN(sent) ? null : new Date(sent - Math.floor(took / 1000) * 1000)
}

function faultOf (response: Response, text: string, call: string, apiKey: string): ProviderFault {
  const { code, message } = refusalOf(text)
  const reason = message === undefined ? undefined : cleanReason(message, apiKey)
  return new ProviderFault(kindOf(response.status, code), {
    message: `altprov answered ${response.status} to ${call} (${response.headers.get('request-id') ?? 'no request id'})${
      reason === undefined ? '' : `: ${reason}`
    }`,
    reason,
    retryAfter: retryAfterOf(response.headers.get('retry-after'))
  })
}

function kindOf (status: number, code: string | undefined): FaultKind {
  // A parameter that names what is not there is a 400.
  if (code === 'resource_missing') return 'missing'
  // 409: the same idempotency key is at work, or the object is locked. 424: something that Stripe itself asks has failed.
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
