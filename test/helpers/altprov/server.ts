/** A local server that speaks Stripe's documented protocol: keys, form bodies, idempotency keys, errors, and injected failures. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import type { Misfortune, ReceivedCall } from '../payment-world.js'
import type { Account } from './account.js'
import { respond } from './endpoints.js'
import { Params, parseForm, Refusal } from './form.js'

interface Reply {
  readonly status: number
  readonly body: string
}

export interface AltprovServer {
  readonly baseUrl: string
  readonly calls: ReceivedCall[]
  readonly strayed: ReceivedCall[]
  misfortune(misfortune: Misfortune, times?: number): void
}

export async function startServer (t: Test, account: Account, apiKey: string): Promise<AltprovServer> {
  const calls: ReceivedCall[] = []
  const strayed: ReceivedCall[] = []
  const misfortunes = new Map<string, { readonly misfortune: Misfortune, times: number }>()
  const answered = new Map<string, { readonly request: string, readonly response: Reply }>()

  const strays = await listening(t, async (request, response) => {
    strayed.push(await received(request))
    response.end('{}')
  })

  const baseUrl = await listening(t, async (request, response) => {
    const call = await received(request)
    calls.push(call)
    response.setHeader('date', new Date(account.now()).toUTCString())
    response.setHeader('request-id', account.newId('req'))
    response.setHeader('content-type', 'application/json')
    const misfortune = next(call.method)
    if (misfortune !== undefined && misfortune !== 'lost') return suffer(response, misfortune, `${strays}${call.path}`)
    const { replayed, response: { status, body } } = replyOf(call)
    if (misfortune === 'lost') return response.destroy()
    if (replayed) response.setHeader('idempotent-replayed', 'true')
    response.writeHead(status).end(body)
  })

  /** The failure of the next request. `lost` applies only to requests that change something. */
  function next (method: string): Misfortune | undefined {
    for (const entry of misfortunes.values()) {
      if (entry.times === 0 || (entry.misfortune === 'lost' && method === 'GET')) continue
      entry.times--
      return entry.misfortune
    }
    return undefined
  }

  function replyOf (call: ReceivedCall): { replayed: boolean, response: Reply } {
    try {
      check(call, apiKey)
      const key = call.method === 'POST' ? String(call.headers['idempotency-key'] ?? '') : ''
      if (key.length > 255) throw new Refusal(400, 'Idempotency keys must be 255 characters or less.', { type: 'idempotency_error' })
      const request = `${call.path} ${call.body}`
      const before = answered.get(key)
      if (before !== undefined && before.request !== request) {
        throw new Refusal(
          400,
          `Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '${key}' if you meant to execute a different request.`,
          { type: 'idempotency_error' }
        )
      }
      if (before !== undefined) return { replayed: true, response: before.response }
      const made = run(account, call)
      if (key !== '' && isKept(made)) answered.set(key, { request, response: made })
      return { replayed: false, response: made }
    } catch (error) {
      if (error instanceof Refusal) return { replayed: false, response: { status: error.status, body: error.toBody() } }
      throw error
    }
  }

  return {
    baseUrl,
    calls,
    strayed,
    misfortune (misfortune, times = 1) {
      misfortunes.set(JSON.stringify(misfortune), { misfortune, times })
    }
  }
}

function run (account: Account, { method, path, body }: ReceivedCall): Reply {
  const { pathname, search } = new URL(path, 'http://altprov')
  try {
    const params = new Params(parseForm(method === 'GET' ? search.slice(1) : body))
    return { status: 200, body: JSON.stringify(respond(account, method, pathname, params)) }
  } catch (error) {
    if (error instanceof Refusal) return { status: error.status, body: error.toBody() }
    throw error
  }
}

/** A request with invalid parameters is not started, and its response is not kept for its idempotency key. A declined payment is kept. */
function isKept ({ status }: Reply): boolean {
  return status === 200 || status === 402
}

function check ({ method, headers, body }: ReceivedCall, apiKey: string): void {
  const { authorization = '' } = headers
  if (authorization === '') throw new Refusal(401, 'You did not provide an API key.')
  if (authorization !== `Bearer ${apiKey}`) throw new Refusal(401, `Invalid API Key provided: ${authorization.slice(7)}`)
  if (!/^\d{4}-\d{2}-\d{2}\.[a-z]+$/.test(String(headers['stripe-version'] ?? ''))) throw new Refusal(400, 'Invalid Stripe API version')
  if (method === 'POST' && body !== '' && headers['content-type'] !== 'application/x-www-form-urlencoded') {
    throw new Refusal(400, 'Invalid content type')
  }
}

function suffer (response: ServerResponse, misfortune: Exclude<Misfortune, 'lost'>, elsewhere: string): void {
  switch (misfortune) {
    case 'reset':
      response.destroy()
      return
    case 'silent':
      return
    case 'nonsense':
      response.end('{"object":"weather","data":{"sun":true}}')
      return
    case 'text':
      response.setHeader('content-type', 'text/html')
      response.end('<h1>It works</h1>')
      return
    case 'huge':
      response.end(JSON.stringify({ object: 'list', data: [], filler: 'x'.repeat(6 * 1_048_576) }))
      return
    case 'redirect':
      response.writeHead(302, { location: elsewhere }).end()
      return
    default: {
      const { status, retryAfter, message = 'Something went wrong' } = misfortune
      if (retryAfter !== undefined) response.setHeader('retry-after', String(retryAfter))
      response.writeHead(status).end(new Refusal(status, message, { type: status >= 500 ? 'api_error' : 'invalid_request_error' }).toBody())
    }
  }
}

async function received (request: IncomingMessage): Promise<ReceivedCall> {
  const { method = '', url = '', headers } = request
  return { method, path: url, headers, body: await text(request) }
}

async function listening (t: Test, handle: (request: IncomingMessage, response: ServerResponse) => Promise<unknown>): Promise<string> {
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      response.destroy()
      t.error(error)
    })
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  return `http://127.0.0.1:${isNetAddress(address) ? address.port : 0}`
}

function isNetAddress (address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}
