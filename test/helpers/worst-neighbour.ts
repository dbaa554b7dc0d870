/** The worst attacks of one tenant on the other tenants of its server, and the document for them. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConfigInput } from '../../lib/configuration/index.js'

export const worstTenant = 'worst'
/** Characters of the large text, whose record is the response of `GET /texts/1`. */
const largeText = 10_000_000

/** Tables and rows of the attacked routes: `texts` has one large text for each tenant, `items` has many rows. */
export const neighbourSql = `
  create table texts (tenant_id text not null, id int not null, text text not null, primary key (tenant_id, id));
  alter table texts alter column text set storage external;
  create table items (tenant_id text not null, id int not null, title text not null, data jsonb not null, primary key (tenant_id, id));
  insert into texts select '${worstTenant}', 1, repeat('a large text of one tenant. ', ${Math.ceil(largeText / 28)});
  insert into items select t, n, 'Item ' || n, jsonb_build_object('n', n, 'text', repeat('x', 200)) from unnest(array['${worstTenant}', 'quiet']) t, generate_series(1, 20000) n;
  analyze texts, items;`

/** The sections of the platform's document for the attacks. `upstream`: the origin that `startUpstream` returns. */
export function neighbourSections (upstream: string): Pick<ConfigInput, 'customIntegrations' | 'rateLimit' | 'server' | 'routes'> {
  return {
    server: { writeTimeoutMs: 5000 },
    // Every platform has such a limit. It stops a flood, and other requests pass.
    rateLimit: { enabled: true, default: { max: 500, windowMs: 1000 } },
    customIntegrations: [{ name: 'upstream', baseUrl: upstream, actions: { get: { method: 'GET', path: '/' } } }],
    routes: [
      {
        path: '/items/:id',
        method: 'get',
        requireAuth: true,
        request: { params: { id: { type: 'integer' } } },
        queries: [{ table: 'items', operation: 'select', id: '{{params.id}}' }]
      },
      {
        path: '/items',
        method: 'get',
        requireAuth: true,
        queries: [{
          table: 'items',
          operation: 'select',
          filters: [{ column: 'title', operator: 'ilike', value: '{{query.like}}', optional: true }],
          order: [{ column: 'title' }]
        }]
      },
      { path: '/texts/:id', method: 'get', requireAuth: true, queries: [{ table: 'texts', operation: 'select', id: '{{params.id}}' }] },
      { path: '/upstream', method: 'get', requireAuth: true, integrations: [{ type: 'upstream', action: 'get' }] },
      {
        path: '/computed',
        method: 'get',
        requireAuth: true,
        queries: [{ table: 'items', operation: 'select', limit: 100 }],
        transform: { fields: { letters: "item.data.text.split('').map(x, x + item.title).size()" } }
      },
      { path: '/echo', method: 'post', requireAuth: true, response: { ok: true } }
    ]
  }
}

/** A service whose response has 300,000 keys. */
export async function startUpstream (): Promise<{ readonly origin: string, close(): void }> {
  const body = members(300_000)
  const server = createServer((_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(body))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close () {
      server.closeAllConnections()
      server.close()
    }
  }
}

export interface Target {
  readonly url: string
  /** The token of an administrator of the worst tenant. */
  readonly authorization: string
}

/** The number of responses by status; `closed` for lost connections. */
export type Statuses = Record<string, number>

/** Attacks until the signal is aborted. */
export type Attack = (target: Target, signal: AbortSignal, statuses: Statuses) => Promise<void>

export const attacks = {
  expressions: async (target, signal, statuses) => {
    const product = `[${Array(24).fill("input.t.split('').join(input.t)").join(',')}].size()>0`
    const step = (condition: string, input: object) => ({
      async: false,
      input,
      steps: [{ id: 'a', type: 'database', operation: 'select', table: 'items', condition }]
    })
    const bodies = [
      step(product, { t: 'a'.repeat(20_000) }),
      step('input.h.contains(input.n)', { h: 'a'.repeat(300_000), n: `${'a'.repeat(70_000)}b${'a'.repeat(70_000)}` })
    ].map((body) => JSON.stringify(body))
    await atOnce(4, signal, async (turn) => await send(target, signal, statuses, 'POST', '/agent/workflow', bodies[turn % bodies.length]))
  },
  slowReaders: async ({ url, authorization }, signal, statuses) => {
    const { hostname, port } = new URL(url)
    const request = `GET /texts/1 HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n\r\n`
    const sockets = new Set<Socket>()
    signal.addEventListener('abort', () => {
      for (const socket of sockets) socket.destroy()
    })
    await atOnce(60, signal, async () => {
      const socket = connect({ host: hostname, port: Number(port) })
      sockets.add(socket)
      socket.on('error', () => {})
      socket.pause()
      socket.write(request)
      // Reads data that arrived after the server had time to close the connection.
      const drop = setTimeout(() => socket.destroy(), 8000)
      await once(socket, 'close')
      clearTimeout(drop)
      sockets.delete(socket)
      count(statuses, 'closed')
    })
  },
  manyKeys: async (target, signal, statuses) => {
    const body = members(60_000)
    await atOnce(6, signal, async (turn) =>
      turn % 2 === 0
        ? await send(target, signal, statuses, 'POST', '/echo', body)
        : await send(target, signal, statuses, 'GET', '/upstream'))
  },
  bodies: async (target, signal, statuses) => {
    // 6,000 keys of each body's own: few enough to be parsed, in a body of less than 64 KB.
    const bodies = Array.from({ length: 8 }, (_, body) =>
      JSON.stringify(Array.from({ length: 600 }, (_, index) =>
        Object.fromEntries(Array.from({ length: 10 }, (_, key) => [`${body}k${index * 10 + key}`, 1])))))
    await atOnce(32, signal, async (turn) => await send(target, signal, statuses, 'POST', '/echo', bodies[turn % bodies.length]))
  },
  computed: async (target, signal, statuses) => {
    await atOnce(16, signal, async (turn) => await send(target, signal, statuses, 'GET', `/computed?n=${turn}`))
  },
  saves: async (target, signal, statuses) => {
    await atOnce(2, signal, async (turn) => {
      const routes = Array.from(
        { length: 300 },
        (_, index) => ({
          path: `/own-${turn % 7}-${index}/:id`,
          method: 'get',
          requireAuth: true,
          queries: [{ table: 'items', operation: 'select', id: '{{params.id}}' }]
        })
      )
      await send(target, signal, statuses, 'POST', '/tenant/config', JSON.stringify({ routes }))
    })
  },
  slowQueries: async (target, signal, statuses) => {
    await atOnce(12, signal, async () => await send(target, signal, statuses, 'GET', '/items?limit=1000&like=%25x%251%25'))
  },
  largeResponses: async (target, signal, statuses) => {
    await atOnce(20, signal, async () => await send(target, signal, statuses, 'GET', '/texts/1'))
  },
  flood: async (target, signal, statuses) => {
    await atOnce(32, signal, async (turn) => await send(target, signal, statuses, 'GET', `/items/${turn % 20_000 + 1}`))
  }
} satisfies Record<string, Attack>

export type AttackName = keyof typeof attacks

function members (length: number): string {
  return JSON.stringify(Object.fromEntries(Array.from({ length }, (_, index) => [`key${index}`, 1])))
}

async function atOnce (count: number, signal: AbortSignal, work: (turn: number) => Promise<void>): Promise<void> {
  let turn = 0
  await Promise.all(Array.from({ length: count }, async () => {
    while (!signal.aborted) await work(turn++)
  }))
}

async function send (
  { url, authorization }: Target,
  signal: AbortSignal,
  statuses: Statuses,
  method: string,
  path: string,
  body?: string
): Promise<void> {
  const own = new AbortController()
  const requests = openRequests(signal).add(own)
  try {
    const response = await fetch(url + path, {
      method,
      signal: own.signal,
      headers: { authorization, ...body !== undefined && { 'content-type': 'application/json' } },
      ...body !== undefined && { body }
    })
    count(statuses, String(response.status))
    await response.arrayBuffer()
    // Simulates a caller that ignores refusals, at the highest rate that one attacking machine can send.
    if (response.status === 429) await sleep(5)
  } catch {
    if (signal.aborted) return
    count(statuses, 'closed')
    await sleep(50)
  } finally {
    requests.delete(own)
  }
}

const openOf = new WeakMap<AbortSignal, Set<AbortController>>()

/** The requests that the signal aborts. Each has its own signal: fetch keeps its listener on a signal until garbage collection. */
function openRequests (signal: AbortSignal): Set<AbortController> {
  const known = openOf.get(signal)
  if (known !== undefined) return known
  const requests = new Set<AbortController>()
  signal.addEventListener('abort', () => {
    for (const request of requests) request.abort()
  }, { once: true })
  openOf.set(signal, requests)
  return requests
}

function count (statuses: Statuses, status: string): void {
  statuses[status] = (statuses[status] ?? 0) + 1
}
