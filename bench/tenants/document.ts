/** The platform's document of the tenants benchmark, and the tenants' documents. */
import type { ConfigInput } from 'tenantry'
import { poolSize } from './pool-size.js'

export type Route = ConfigInput['routes'][number]

export interface TenantDocument {
  readonly routes: readonly Route[]
}

const columns = ['id', 'title', 'body', 'status', 'views', 'created_at', 'tenant_id'] as const

/** The route that is measured on both sides, for the platform and for a tenant. */
export const measured = {
  record: (path: string): Route => ({
    path: `${path}/articles/:id`,
    method: 'get',
    requireAuth: true,
    request: { params: { id: { type: 'string', format: 'uuid' } } },
    queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}' }]
  }),
  list: (path: string): Route => ({
    path: `${path}/articles`,
    method: 'get',
    requireAuth: true,
    request: { query: {} },
    queries: [{ table: 'articles', operation: 'select', order: [{ column: 'created_at', ascending: false }, { column: 'id' }] }]
  }),
  mapped: (path: string): Route => ({
    path: `${path}/greetings/:name`,
    method: 'get',
    requireAuth: true,
    request: { params: { name: { type: 'string', maxLength: 50 } } },
    response: { message: 'Hello {{params.name}}', tenant: '{{auth.tenant_id}}', caller: { id: '{{auth.sub}}', role: '{{auth.role}}' } }
  })
}

/** Rows whose title is a secret or a text of the same length. One route reads the secret, the other does not. */
export const secretRoutes: readonly Route[] = [
  {
    path: '/own/with-secret',
    method: 'get',
    requireAuth: true,
    queries: [{
      table: 'articles',
      operation: 'select',
      limit: 5,
      filters: [{ column: 'title', operator: 'neq', value: '{{secret:BENCH_KEY}}' }]
    }]
  },
  {
    path: '/own/without-secret',
    method: 'get',
    requireAuth: true,
    queries: [{
      table: 'articles',
      operation: 'select',
      limit: 5,
      filters: [{ column: 'title', operator: 'neq', value: '{{query.none || "a value of the benchmark"}}' }]
    }]
  }
]

/** The tenant's routes under `/own`, and the platform's under `/base`. */
export function measuredRoutes (path: string): Route[] {
  return Object.values(measured).map((make) => make(path))
}

/** Settings: DATABASE_URL, JWT_SECRET. */
export function platformDocument (maxLoadedTenants: number): ConfigInput {
  return {
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: poolSize } },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    tenancy: { maxLoadedTenants },
    rateLimit: { enabled: false },
    routes: measuredRoutes('/base')
  }
}

/**
 * A tenant's routes. Their paths, columns and column order differ from the next tenant's.
 *
 * @param lists number of different column lists
 */
export function routesOfTenant (index: number, count: number, lists: number): Route[] {
  return Array.from({ length: count }, (_, number) => {
    const selected = columnsOfRoute(index, count, number, lists)
    return {
      path: routePath(index, number).replace('/1', '/:page'),
      method: 'get' as const,
      requireAuth: true,
      request: { params: { page: { type: 'integer' as const, minimum: 0 } } },
      queries: [{
        table: 'articles',
        operation: 'select' as const,
        select: selected.join(', '),
        limit: 5,
        order: [{ column: selected[0] ?? 'id' }]
      }]
    }
  })
}

/** A path that matches the route with this number. */
export function routePath (index: number, number: number): string {
  return `/list-${index % 89}-of-${number}/1`
}

/** The columns that one of the tenant's routes reads. */
export function columnsOfRoute (index: number, count: number, number: number, lists: number): string[] {
  return columnsOf((index * count + number) % lists)
}

/** Some of the columns in some order, by number: there are 13,699 such lists. */
function columnsOf (number: number): string[] {
  const rest: string[] = [...columns]
  const selected: string[] = []
  let remaining = number
  for (let length = 3 + number % 5; length > 0 && rest.length > 0; length--) {
    const place = remaining % rest.length
    remaining = Math.floor(remaining / rest.length)
    selected.push(...rest.splice(place, 1))
  }
  return selected
}
