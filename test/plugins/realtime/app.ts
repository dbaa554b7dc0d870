/** A server with watched notes, and websocket clients. */
import { once } from 'node:events'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import WebSocket from 'ws'
import { isRecord } from '../../../lib/json/plain-value.js'
import { listen, type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { signToken, type TokenClaims } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

export type Message = Record<string, unknown>

export const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const

export const document: TestDocument = {
  tables: {
    notes: {
      tenantScoped: true,
      softDelete: true,
      columns: {
        id,
        title: { type: 'text' },
        done: { type: 'boolean', default: false },
        amount: { type: 'numeric' },
        secret: { type: 'text' }
      }
    },
    tasks: { tenantScoped: true, columns: { number: { type: 'bigint', primaryKey: true }, title: { type: 'text' } } },
    plain: { columns: { id } }
  },
  routes: [
    { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
    { path: '/notes/:id', method: 'patch', queries: [{ table: 'notes', operation: 'update', id: '{{params.id}}' }] },
    {
      path: '/notes/:id',
      method: 'delete',
      softDelete: { enabled: true, allowHardDelete: true },
      queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }]
    },
    { path: '/tasks', method: 'post', queries: [{ table: 'tasks', operation: 'insert' }] }
  ],
  realtime: { tables: { notes: { excludeFields: ['secret'] }, tasks: { permissions: ['tasks:read'], trigger: true } } },
  plans: { large: { price: { monthly: 1 }, limits: { websocket: { maxConnections: -1, maxRooms: -1, maxEntitiesWatched: -1 } } } }
}

export interface Opened {
  readonly app: FastifyInstance
  readonly origin: string
  /** A client of the tenant, ready. */
  readonly connect: (tenant: string, claims?: TokenClaims) => Promise<Client>
  readonly ask: (tenant: string) => ReturnType<typeof caller>
}

export async function open (t: Test, changes: TestDocument = {}, options: TestServerOptions = {}): Promise<Opened> {
  const app = await testServer(t, { ...document, ...changes }, {
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }],
    ...options
  })
  const origin = await listen(app)
  return {
    app,
    origin,
    connect: (tenant, claims = {}) => ready(t, origin, tokenOf(tenant, claims)),
    ask: (tenant) => caller(t, app, { token: signToken({ role: 'admin', sub: 'ada', tenant_id: tenant }) })
  }
}

export function tokenOf (tenant: string, claims: TokenClaims = {}): string {
  return signToken({ sub: 'bob', role: 'user', tenant_id: tenant, ...claims })
}

export async function ready (t: Test, origin: string, token: string): Promise<Client> {
  const client = connect(t, origin, { headers: { authorization: `Bearer ${token}` } })
  await client.next(({ type }) => type === 'ready')
  return client
}

export function connect (
  t: Test,
  origin: string,
  options: WebSocket.ClientOptions = {},
  protocols: string[] = [],
  path = '/realtime'
): Client {
  const client = new Client(new WebSocket(`${origin.replace('http', 'ws')}${path}`, protocols, options))
  t.teardown(() => client.socket.terminate())
  return client
}

const waitMs = 120_000 // as in test/helpers/until.ts

/** A websocket and its received messages. */
export class Client {
  readonly socket: WebSocket
  readonly messages: Message[] = []
  readonly closed: Promise<{ code: number, reason: string }>
  #refs = 0
  #listeners = new Set<() => void>()
  #end = ''

  constructor (socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data) => {
      const message: unknown = JSON.parse(String(data))
      if (isRecord(message)) this.messages.push(message)
      for (const listener of this.#listeners) listener()
    })
    socket.on('error', ({ message }) => {
      this.#end = message
    })
    this.closed = once(socket, 'close').then(([code, reason]) => ({ code: Number(code), reason: String(reason) }))
    socket.on('close', (code, reason) => {
      this.#end ||= `${code} ${String(reason)}`
      for (const listener of this.#listeners) listener()
    })
  }

  send (message: Message): void {
    this.socket.send(JSON.stringify(message))
  }

  /** Takes the first message, received or future, that matches. Rejects when the connection has ended without it. */
  async next (holds: (message: Message) => boolean = () => true): Promise<Message> {
    return await new Promise((resolve, reject) => {
      const fail = (reason: string): void => {
        stop()
        reject(new Error(`${reason}: no such message; there are ${JSON.stringify(this.messages).slice(0, 2000)}`))
      }
      const timer = setTimeout(() => fail('too late'), waitMs)
      const stop = (): void => {
        clearTimeout(timer)
        this.#listeners.delete(look)
      }
      const look = (): void => {
        const index = this.messages.findIndex(holds)
        if (index < 0) {
          if (this.socket.readyState === WebSocket.CLOSED) fail(`the connection ended (${this.#end})`)
          return
        }
        stop()
        resolve(this.messages.splice(index, 1)[0] ?? {})
      }
      this.#listeners.add(look)
      look()
    })
  }

  /** Sends it, and returns its `ack` or `error`. */
  async ask (message: Message): Promise<Message> {
    const ref = `r${++this.#refs}`
    this.send({ ...message, ref })
    return await this.next((response) => response['ref'] === ref)
  }

  async change (): Promise<Message> {
    return await this.next(({ type }) => type === 'change')
  }

  /** Resolves when everything that the server sent before has arrived. */
  async settle (): Promise<void> {
    await this.ask({ type: 'ping' })
  }
}

/** A heartbeat that stays fresh: without another live process a bus sends nothing. */
export async function keepAlive (app: FastifyInstance, instance: string): Promise<void> {
  await sql`insert into tenantry.realtime_instances values (${instance}::uuid, clock_timestamp() + interval '1 hour')`.execute(app.db)
}
