/** Sends requests to a server and checks every error response: whatever a test is about, no error may reveal internals. */
import type { FastifyInstance, InjectOptions } from 'fastify'
import type { Test } from 'tap'
import { secretsOfExchange } from '../helpers/log-scan.js'
import { testSecret } from '../helpers/tokens.js'

/** A response of either transport. */
export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
  /** The body as JSON; undefined if it is not JSON. */
  readonly body: Body
}

/** The members that tests look at. */
export type Body = Record<string, unknown> & {
  readonly data?: Record<string, unknown>[],
  readonly details?: { path: string, message: string, keyword: string }[]
}

export interface Request {
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent unchanged, as JSON unless `type` is given. */
  readonly raw?: string | Buffer
  readonly type?: string
  /** X-Tenant-ID. */
  readonly tenant?: string
  readonly token?: string
  readonly headers?: Record<string, string>
}

/** `ask('POST /notes?x=1', { body })` */
export type Ask = (target: string, request?: Request) => Promise<Reply>

/** Sends requests to the server without a port. */
export function caller (t: Test, app: FastifyInstance, defaults: Request = {}): Ask {
  return async (target, request = {}) => {
    const [method, url] = splitTarget(target)
    const { headers, payload } = messageOf({ ...defaults, ...request })
    const options: InjectOptions = { url, headers, ...(payload !== undefined && { payload }) }
    // light-my-request accepts any method; its types list only the old ones.
    const response = await app.inject(Object.assign(options, { method }))
    return checked(t, target, { status: response.statusCode, headers: response.headers, text: response.body, body: parsed(response.body) })
  }
}

/** Sends requests to a listening server. */
export function remoteCaller (t: Test, origin: string, defaults: Request = {}): Ask {
  return async (target, request = {}) => {
    const [method, url] = splitTarget(target)
    const { headers, payload } = messageOf({ ...defaults, ...request })
    const response = await fetch(origin + url, {
      method,
      headers,
      ...(payload !== undefined && { body: typeof payload === 'string' ? payload : new Uint8Array(payload) })
    })
    const text = await response.text()
    // A server in another process, whose secrets are not marked otherwise.
    secretsOfExchange(method, url, request.body, text)
    return checked(t, target, { status: response.status, headers: Object.fromEntries(response.headers), text, body: parsed(text) })
  }
}

function splitTarget (target: string): [method: string, url: string] {
  const space = target.indexOf(' ')
  return [target.slice(0, space), target.slice(space + 1)]
}

function messageOf (
  { body, raw, type = 'application/json', tenant, token, headers }: Request
): { headers: Record<string, string>, payload: string | Buffer | undefined } {
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  return {
    payload,
    headers: {
      ...(payload !== undefined && type !== '' && { 'content-type': type }),
      ...(tenant !== undefined && { 'x-tenant-id': tenant }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers
    }
  }
}

export function parsed (text: string): Body {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

/** Text that no response may contain: SQL, stacks, paths, settings, the driver's messages. */
const leaks: readonly RegExp[] = [
  /row_to_json|json_agg|gen_random_uuid|set_config|\)::text\b|\$\d+::|"public"\.|"tenantry"\./,
  /\n\s+at |node_modules|file:\/\/|\/lib\/|\/plugins\/|\.[mc]?[jt]s:\d+/,
  /SQLSTATE|syntax error at|violates [a-z-]+ constraint|relation "|does not exist|invalid input syntax|unterminated|_pkey\b|_fkey\b|(?<!\b(?:payprov_)?api)_key\b/,
  /postgres(?:ql)?:\/\/|ECONNREFUSED|127\.0\.0\.1|FST_ERR|TypeError|undefined is not/
]

/** Checks a response: every error has the documented body, and contains nothing that the caller did not send. */
export function checked (t: Test, label: string, response: Reply): Reply {
  const { status, headers, text, body } = response
  const shown = label.length > 120 ? `${label.slice(0, 120)}...` : label
  if (status === 500) t.fail(`${shown}: 500 ${text}`)
  if (status < 400) return response
  // Node sends no body for HEAD, but an injected request may see one.
  if (label.startsWith('HEAD ')) return response
  const faults: string[] = []
  for (const member of ['error', 'message', 'code', 'requestId']) {
    if (typeof body[member] !== 'string' || body[member] === '') faults.push(`no ${member}`)
  }
  if (!/^TENANTRY_[A-Z_]+$/.test(String(body['code']))) faults.push(`the code ${String(body['code'])}`)
  if (!/^application\/json/.test(String(headers['content-type']))) faults.push(`the content type ${String(headers['content-type'])}`)
  for (const leak of leaks) if (leak.test(text)) faults.push(`it reveals ${leak.exec(text)?.[0]}`)
  if (text.includes(testSecret)) faults.push('it reveals the secret')
  if (text.length > 20_000) faults.push(`an error of ${text.length} characters`)
  if (faults.length > 0) t.fail(`${shown}: ${status} ${text.slice(0, 500)}`, { faults })
  return response
}

/** Asserts an error with this status and code (without its prefix). */
export function refused (t: Test, { status, body, text }: Reply, expected: number, code: string, label = ''): void {
  const name = `${label === '' ? 'refused' : label}: ${expected} ${code}`
  // Compares in full only those that fail: for thousands of responses, tap's comparison takes longer than the requests.
  if (status === expected && body['code'] === `TENANTRY_${code}`) t.pass(name)
  else t.fail(`${name}, but the response was ${status} ${text.slice(0, 300)}`)
}
