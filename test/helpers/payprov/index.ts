/** A local server that speaks the documented part of Polar's API, version 2026-04, and signs webhooks as Polar does. */
import { createHmac, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Webhook } from 'standardwebhooks'
import type { Test } from 'tap'
import { loadProvider } from '../../../plugins/billing/providers/index.js'
import type { ProviderSettings } from '../../../plugins/billing/providers/provider.js'
import type { EventKind, Misfortune, ReceivedCall, SignedEvent, SignOptions, Sold, World } from '../payment-world.js'
import { Account } from './account.js'
import { newOrder } from './records.js'
import { invalid, Refusal, refusal } from './refusal.js'
import { eventText, type Route, routes } from './routes.js'

export type { Account } from './account.js'

const start = Date.UTC(2026, 0, 15, 12) // ms
const kinds = {
  created: 'subscription.created',
  updated: 'subscription.updated',
  ended: 'subscription.revoked',
  paid: 'order.paid',
  refunded: 'order.refunded',
  other: 'product.updated'
} as const satisfies Record<EventKind, string>

export interface PayprovWorld extends World {
  /** The platform's own account. */
  readonly account: Account
  /** Another organization, with its own access token. */
  addAccount(token: string): Account
  /** Signs an event of any type about a subscription, or about an order of it. */
  eventOf(type: string, subscription: string, options?: SignOptions): SignedEvent
}

/** Starts the server until the test ends. Its clock starts at `now` (default: a day in January 2026). */
export async function payprovWorld (t: Test, { now: begin = start }: { readonly now?: number } = {}): Promise<PayprovWorld> {
  const clock = { now: begin }
  const accounts = new Map<string, Account>()
  const calls: ReceivedCall[] = []
  const strayed: ReceivedCall[] = []
  const misfortunes = { left: 0, next: undefined as Misfortune | undefined }
  const secret = 'polar_whs_a secret of the tests that signs webhooks'

  const addAccount = (token: string): Account => {
    const account = new Account(token, () => clock.now)
    accounts.set(token, account)
    return account
  }
  const account = addAccount('polar_oat_thePlatformsOwnKeyOfTheTests')

  const elsewhere = await listen(
    t,
    createServer((request, response) => {
      receive(request, '', strayed)
      response.end('{}')
    })
  )
  const server = createServer((request, response) => {
    bodyOf(request).then((text) => {
      serve(request, response, text)
    }, () => {
      response.destroy()
    })
  })
  const baseUrl = await listen(t, server)

  function serve (request: IncomingMessage, response: ServerResponse, text: string): void {
    receive(request, text, calls)
    const misfortune = misfortuneOf(request.method ?? '')
    if (misfortune !== undefined && misfortune !== 'lost') return fare(misfortune, request, response)
    const { status, body } = respond(request, text)
    if (misfortune === 'lost') request.socket.destroy()
    else send(response, status, body)
  }

  /** `lost` applies only to requests that change something; others get their response. */
  function misfortuneOf (method: string): Misfortune | undefined {
    if (misfortunes.left === 0 || (misfortunes.next === 'lost' && method === 'GET')) return undefined
    misfortunes.left--
    return misfortunes.next
  }

  function fare (misfortune: Exclude<Misfortune, 'lost'>, request: IncomingMessage, response: ServerResponse): void {
    switch (misfortune) {
      case 'reset':
        request.socket.destroy()
        break
      case 'silent':
        break
      case 'nonsense':
        send(response, 200, { items: 'none', id: 7, object: 'list' })
        break
      case 'text':
        response.writeHead(200, { 'content-type': 'text/html' }).end('<html>hello</html>')
        break
      case 'huge':
        send(response, 200, { items: [], filler: 'x'.repeat(6 * 1_048_576) })
        break
      case 'redirect':
        response.writeHead(307, { location: `${elsewhere}${request.url ?? ''}` }).end()
        break
      default: {
        const { status, retryAfter, message = 'Something is not right' } = misfortune
        if (retryAfter !== undefined) response.setHeader('retry-after', retryAfter)
        send(response, status, status === 422 ? invalid('body', 'field', message).body : { error: 'Misfortune', detail: message })
      }
    }
  }

  function respond (request: IncomingMessage, text: string): { status: number, body: object } {
    try {
      const { pathname, searchParams: query } = new URL(request.url ?? '', baseUrl)
      const account = accountOf(request)
      const route = routes.find(({ method, path }) => method === request.method && path.test(pathname))
      if (route === undefined) throw refusal(404, 'ResourceNotFound', 'Not Found')
      const id = route.path.exec(pathname)?.[1] ?? ''
      if (id !== '' && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw invalid('path', 'id', 'Input should be a valid UUID')
      return {
        status: route.status ?? 200,
        body: route.run({ account, id, query, body: readBody(route, request, text), address: baseUrl })
      }
    } catch (error) {
      if (error instanceof Refusal) return { status: error.status, body: error.body }
      return { status: 500, body: { error: 'InternalServerError', detail: String(error) } }
    }
  }

  function accountOf ({ headers }: IncomingMessage): Account {
    if (headers['polar-version'] !== '2026-04') throw refusal(400, 'BadRequest', 'The version is not known')
    const account = accounts.get(/^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '')
    if (account === undefined) {
      throw new Refusal(401, {
        error: 'invalid_token',
        error_description: 'The access token provided is expired, revoked, malformed, or invalid for other reasons.'
      })
    }
    const organization = headers['polar-organization']
    if (organization !== undefined && organization !== account.id) throw refusal(403, 'NotPermitted', 'Not permitted')
    return account
  }

  function sign (body: Buffer, { at = clock.now, secrets = [secret] }: SignOptions = {}): SignedEvent {
    const id = randomUUID()
    const time = new Date(Math.floor(at / 1000) * 1000)
    const signatures = secrets.map((key) =>
      key === ''
        ? `v1,${createHmac('sha256', key).update(`${id}.${time.getTime() / 1000}.`).update(body).digest('base64')}`
        : new Webhook(key, { format: 'raw' }).sign(id, time, body.toString())
    )
    return {
      body,
      headers: { 'webhook-id': id, 'webhook-timestamp': String(time.getTime() / 1000), 'webhook-signature': signatures.join(' ') }
    }
  }

  function eventOf (type: string, id: string, options?: SignOptions): SignedEvent {
    const subscription = account.subscription(id)
    const data = type.startsWith('order.')
      ? newOrder(subscription, clock.now, type === 'order.refunded')
      : type.startsWith('product.')
        ? subscription.product
        : subscription
    return sign(Buffer.from(eventText(type, data, clock.now)), options)
  }

  return {
    open: (settings: Partial<ProviderSettings> = {}) =>
      loadProvider('payprov', { apiKey: account.token, webhookSecrets: [secret], baseUrl, organizationId: undefined, ...settings }),
    baseUrl,
    apiKey: account.token,
    webhookSecret: secret,
    account,
    addAccount,
    now: () => clock.now,
    advance (milliseconds) {
      clock.now += milliseconds
    },
    sell: ({ cycle, ...product }): Sold => account.sell({ ...product, interval: cycle === 'monthly' ? 'month' : 'year' }),
    subscribe: (tenant, { product }, options = {}) =>
      account.subscribe(account.customerFor(tenant, `${tenant}@customers.example`), product, {
        metadata: { tenant_id: tenant },
        ...options
      }).id,
    pay: (checkout) => account.pay(checkout).id,
    change (subscription, change) {
      account.change(subscription, change)
    },
    charges: (subscription) => account.charges(subscription),
    decline (declines) {
      account.declines = declines
    },
    misfortune (misfortune, times = 1) {
      Object.assign(misfortunes, { next: misfortune, left: times })
    },
    calls,
    forget () {
      calls.length = 0
    },
    strayed,
    event: (kind, subscription, options) => eventOf(kinds[kind], subscription, options),
    eventOf,
    sign
  }
}

function readBody ({ method }: Route, { headers }: IncomingMessage, text: string): unknown {
  if (method === 'GET' || method === 'DELETE') return undefined
  if (!/^application\/json\b/.test(headers['content-type'] ?? '')) {
    throw invalid('header', 'content-type', 'Input should be application/json')
  }
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('body', '0', 'JSON decode error')
  }
}

function receive ({ method = '', url: path = '', headers }: IncomingMessage, body: string, into: ReceivedCall[]): void {
  into.push({ method, path, headers, body })
}

async function bodyOf (request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

function send (response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function listen (t: Test, server: Server): Promise<string> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return `http://127.0.0.1:${address.port}`
}
