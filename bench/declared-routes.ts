/** Documents with many routes of every kind, for bench/routes.ts. */
import type { ConfigInput } from 'tenantry'

type Route = ConfigInput['routes'][number]
type Fields = NonNullable<NonNullable<Route['request']>['body']>

const title = { type: 'string', required: true, minLength: 1, maxLength: 200 } as const
const status: Fields[string] = { type: 'string', enum: ['draft', 'pending_review', 'published'] }
const body: Fields = {
  title,
  body: { type: 'string', required: true, maxLength: 10_000 },
  status,
  views: { type: 'integer', minimum: 0 }
}

/** A document with the given number of routes, which cycles through the kinds. */
export function documentWith (count: number): ConfigInput {
  return {
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 2 } },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    rateLimit: { enabled: true },
    routes: Array.from({ length: count }, (_, index) => routeOf(index))
  }
}

function routeOf (index: number): Route {
  const collection = `/group-${index % 50}/articles-${index}`
  const record = `${collection}/:id`
  const params = { id: { type: 'string', format: 'uuid' } } as const
  const common = { requireAuth: true, description: `Route number ${index}`, tags: [`group-${index % 50}`] }
  const kinds: Route[] = [
    {
      ...common,
      path: collection,
      method: 'get',
      cache: { enabled: true, ttl: 30, varyBy: ['query.status'] },
      queries: [{
        table: 'articles',
        operation: 'select',
        filters: [{ column: 'status', operator: 'eq', value: '{{query.status}}', optional: true }],
        order: { column: 'created_at', ascending: false }
      }]
    },
    {
      ...common,
      path: record,
      method: 'get',
      request: { params },
      excludeFields: ['views'],
      queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}' }]
    },
    {
      ...common,
      path: collection,
      method: 'post',
      request: { body },
      rateLimit: { max: 100, windowMs: 60_000 },
      queries: [{ table: 'articles', operation: 'insert' }]
    },
    {
      ...common,
      path: record,
      method: 'patch',
      requiredPermissions: ['articles:write'],
      request: { params, body: { title, status } },
      queries: [{ table: 'articles', operation: 'update', id: '{{params.id}}' }]
    },
    {
      ...common,
      path: record,
      method: 'delete',
      request: { params },
      queries: [{ table: 'articles', operation: 'delete', id: '{{params.id}}' }]
    },
    {
      ...common,
      path: record,
      method: 'put',
      request: { params, body },
      queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}', alias: 'before' }, {
        table: 'articles',
        operation: 'update',
        id: '{{params.id}}',
        alias: 'after',
        data: { title: '{{body.title}}', body: '{{body.body}}', views: '{{results.before.views}}' }
      }]
    },
    {
      ...common,
      path: collection,
      method: 'get',
      response: { greeting: 'Hello {{auth.sub}}', page: '{{query.page || 1}}', tenant: '{{tenant.id}}' }
    },
    {
      ...common,
      path: collection,
      method: 'get',
      transform: { fields: { score: 'item.views * 2 + 1', isNew: "item.status == 'draft'" } },
      queries: [{
        table: 'articles',
        operation: 'select',
        select: 'id, title, views, status',
        filters: [{
          or: [{ column: 'title', operator: 'ilike', value: '%{{query.q}}%' }, {
            not: { column: 'status', operator: 'in', value: ['draft'] }
          }]
        }]
      }]
    },
    { ...common, path: collection, method: 'post', firebaseQueries: [{ collection: 'events', operation: 'add' }] },
    {
      ...common,
      path: record,
      method: 'get',
      response: { type: 'object', properties: { id: { type: 'string' }, title: { type: 'string' } } },
      queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}' }]
    }
  ]
  const kind = kinds[index % kinds.length]
  if (kind === undefined) throw new Error('no kinds')
  return kind
}
