/** What is measured: requests that both servers get, byte for byte the same. */
import { signToken } from '../test/helpers/tokens.js'
import { insertedTitle, tenants, type BenchDatabase } from './database.js'

export interface BenchRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Case {
  readonly name: string
  /** Each connection goes through all of them, from a place of its own. */
  readonly requests: readonly BenchRequest[]
  /** The ratio of requests a second, and of CPU, that issue 2 asks of tenantry. */
  readonly target: { readonly throughput: number, readonly cpu?: number }
  /** The case adds rows, which are removed after each round. */
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
      target: { throughput: 1 }
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
      writes: true
    },
    {
      name: 'mapped response without database',
      requests: each(({ headers }, index) => ({ method: 'GET', path: `/greetings/visitor-${index}?page=${index}`, headers }), 10),
      target: { throughput: 0.9 }
    }
  ]
}
