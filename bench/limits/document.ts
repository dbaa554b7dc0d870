/** The documents of the limits benchmark: the same routes, with the measured features on or off. */
import type { ConfigInput } from 'tenantry'

/** The features that are on. */
export interface Variant {
  /** Usage, the plan's rate limit and analytics. */
  readonly counting: boolean
  /** The store of rate limit counters, and of cached responses of the provider `redis`. */
  readonly redisUrl?: string | undefined
  /** The cache provider. Default: in memory. */
  readonly cache?: 'memory' | 'redis' | 'lmdb' | undefined
  /** The folder of the provider `lmdb`. */
  readonly folder?: string | undefined
}

type Route = ConfigInput['routes'][number]
type Query = NonNullable<Route['queries']>[number]

const record = { params: { id: { type: 'string', format: 'uuid' } } } as const
const recordQuery: Query = { table: 'articles', operation: 'select', id: '{{params.id}}' }
const listQuery: Query = {
  table: 'articles',
  operation: 'select',
  limit: 20,
  order: [{ column: 'created_at', ascending: false }, { column: 'id' }]
}
const cache = { enabled: true, ttl: 3600 } // s, longer than the benchmark runs

/** The measured routes, plain and, under `/cached`, cached. */
const routes: readonly Route[] = [
  { path: '/articles/:id', method: 'get', requireAuth: true, request: record, queries: [recordQuery] },
  { path: '/articles', method: 'get', requireAuth: true, request: { query: {} }, queries: [listQuery] },
  { path: '/cached/articles/:id', method: 'get', requireAuth: true, request: record, cache, queries: [recordQuery] },
  { path: '/cached/articles', method: 'get', requireAuth: true, request: { query: {} }, cache, queries: [listQuery] },
  {
    path: '/greetings/:name',
    method: 'get',
    request: { params: { name: { type: 'string', maxLength: 50 } } },
    response: { message: 'Hello {{params.name}}' }
  }
]

/** Settings: DATABASE_URL, JWT_SECRET. */
export function limitsDocument ({ counting, redisUrl, cache: provider = 'memory', folder }: Variant): ConfigInput {
  const redis = redisUrl === undefined ? {} : { redis: { url: redisUrl } }
  return {
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 10 } },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    // Counted against a limit that is never reached.
    plans: { enterprise: { limits: { api: { requestsPerMinute: 1_000_000_000 } } } },
    rateLimit: { enabled: counting, ...redis },
    cache: {
      enabled: true,
      provider,
      ...provider === 'redis' && redis,
      ...provider === 'lmdb' && folder !== undefined && { lmdb: { dbPath: folder } }
    },
    analytics: { enabled: counting },
    plugins: counting ? {} : { usage: false, analytics: false },
    routes: [...routes]
  }
}
