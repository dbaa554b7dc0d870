/** The measured requests, byte for byte the same for both servers. */
import { signToken } from '../test/helpers/tokens.js'
import { type BenchDatabase, insertedTitle, tenants } from './database.js'

export interface BenchRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Case {
  readonly name: string
  /** Each connection sends all of them, starting at a different one. */
  readonly requests: readonly BenchRequest[]
  /** The target ratio to the hand-written server: of requests a second, and of CPU. */
  readonly target: { readonly throughput: number, readonly cpu?: number }
  /** The same to node:http with pg. */
  readonly targetOfRaw?: { readonly throughput: number }
  /** The case inserts rows, which are removed after each round. */
  readonly writes?: true
}

export function createCases (database: Pick<BenchDatabase, 'ids'>): Case[] {
  const callers = tenants.map(tenant => ({
    tenant,
    headers: {
      authorization: `Bearer ${signToken({ sub: `user-of-${tenant}`, role: 'editor', tenant_id: tenant }, { expiresIn: 86_400 })}`
    }
  }))
  const each = (make: (caller: typeof callers[number], index: number) => BenchRequest, times: number): BenchRequest[] =>
    Array.from({ length: times }, (_, index) => callers.map(caller => make(caller, index))).flat()
  return [
    {
      name: 'one row by id',
      requests: each(
        ({ tenant, headers }, index) => ({ method: 'GET', path: `/articles/${database.ids.get(tenant)?.[index]}`, headers }),
        50
      ),
      target: { throughput: 1 },
      targetOfRaw: { throughput: 1 }
    },
    {
      name: 'list of 20 rows with total',
      requests: each(({ headers }, index) => ({ method: 'GET', path: `/articles?limit=20&offset=${index * 20}`, headers }), 10),
      target: { throughput: 1.4, cpu: 0.7 }
    },
    {
      name: 'insert',
      requests: each(({ headers }, index) => ({
        method: 'POST',
        path: '/articles',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({
          title: insertedTitle,
          body: `Some "text" of two hundred characters. ${'More of it. '.repeat(13)}`,
          status: 'draft',
          views: index
        })
      }), 10),
      target: { throughput: 1 },
      targetOfRaw: { throughput: 1 },
      writes: true
    },
    {
      name: 'mapped response without database',
      requests: each(({ headers }, index) => ({ method: 'GET', path: `/greetings/visitor-${index}?page=${index}`, headers }), 10),
      target: { throughput: 0.9 }
    }
  ]
}
