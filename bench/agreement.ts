/**
 * Compares the responses of both servers, since speed means nothing unless both do the same work. The same request must get the same
 * status, the same JSON (timestamps compared by instant; values that differ in each response are left out) and the same headers.
 */
import { isDeepStrictEqual } from 'node:util'
import type { BenchRequest, Case } from './cases.js'

interface Reply {
  readonly status: number
  readonly body: unknown
  readonly headers: readonly string[]
}

/** Returns the names of headers that only one of them sends. Throws if the status or the body differs. */
export async function checkAgreement (left: string, right: string, requests: readonly BenchRequest[]): Promise<string[]> {
  const headers = new Set<string>()
  for (const request of requests) {
    const [one, other] = [await ask(left, request), await ask(right, request)]
    if (one.status !== other.status || !isDeepStrictEqual(one.body, other.body)) {
      throw new Error(`the servers disagree on ${request.method} ${request.path}\n${JSON.stringify(one)}\n${JSON.stringify(other)}`)
    }
    for (const name of [...one.headers, ...other.headers]) {
      if (!one.headers.includes(name) || !other.headers.includes(name)) headers.add(name)
    }
  }
  return [...headers].sort()
}

/** Some measured requests of each case. */
export function acceptedRequests (cases: readonly Case[]): BenchRequest[] {
  return cases.flatMap(({ requests }) => [...requests.slice(0, 3), ...requests.slice(-1)])
}

/** No token, a wrong token, a row that does not exist, another tenant's row, and invalid input. */
export function refusedRequests (cases: readonly Case[]): BenchRequest[] {
  const [read, list, insert] = cases.map(({ requests }) => requests[0])
  const foreign = cases[0]?.requests[1]
  if (read === undefined || list === undefined || insert === undefined || foreign === undefined) throw new Error('no requests')
  return [
    { ...read, headers: {} },
    { ...read, headers: { authorization: `${read.headers.authorization}x` } },
    { ...read, path: '/articles/00000000-0000-4000-8000-000000000000' },
    { ...read, path: foreign.path },
    { ...read, path: '/articles/7' },
    { ...read, path: '/nothing' },
    { ...list, path: '/articles?limit=-1' },
    { ...list, path: '/articles?limit=many' },
    { ...list, path: '/articles?limit=1000' },
    { ...list, path: '/articles?other=1' },
    { ...insert, body: '{"title":"","body":"x"}' },
    { ...insert, body: '{"title":"x","body":"x","status":"unknown"}' },
    { ...insert, body: '{"title":"x","body":"x","other":1}' },
    { ...insert, body: '{' }
  ]
}

async function ask (origin: string, { path, ...request }: BenchRequest): Promise<Reply> {
  const response = await fetch(`${origin}${path}`, { ...request, headers: { ...request.headers } })
  const body: unknown = await response.json()
  return {
    status: response.status,
    body: response.status >= 400 ? errorOf(body) : comparable(body, response.status === 201),
    headers: [...response.headers.keys()].filter(name => name !== 'www-authenticate')
  }
}

/** The validators write their own texts for a 400's details and for the position of a JSON fault. */
function errorOf (body: unknown): unknown {
  const { error, message, code, requestId } = Object(body)
  return { error, message: String(message).replace(/: line \d+, column \d+$/, ''), code, hasRequestId: typeof requestId === 'string' }
}

function comparable (value: unknown, isNew: boolean): unknown {
  if (Array.isArray(value)) return value.map(item => comparable(item, isNew))
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value)) return isNew ? '(now)' : new Date(value).toISOString()
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, isNew && key === 'id' ? '(new)' : comparable(member, isNew)])
  )
}
