/** The published build of tenantry with an MCP server: routes of a table, and half of 500 tools. The other half belongs to a tenant. */
import { serve, type ServerSettings } from '../server-process.js'

const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

/** The Host header of requests. */
const url = 'http://bench.example.com'

const read = { method: 'get' as const, requireAuth: true }
const many = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    ...read,
    path: `/${prefix}${String(index).padStart(3, '0')}/:id`,
    mcp: { name: `${prefix}_${String(index).padStart(3, '0')}`, description: 'Reads an article by its id.' },
    queries: [{ table: 'articles', operation: 'select' as const, id: '{{params.id}}', single: true }]
  }))

await serve(async ({ connectionString, jwtSecret }: ServerSettings) => {
  return createServer({
    databaseProvider: 'postgres',
    postgres: { connectionString, pool: { max: 10 } },
    migrate: 'auto',
    jwt: { secret: jwtSecret },
    rateLimit: { enabled: false },
    mcp: { url },
    routes: [
      {
        ...read,
        path: '/greetings/:name',
        mcp: { name: 'greet' },
        request: { params: { name: { type: 'string', maxLength: 50 } } },
        response: { message: 'Hello {{params.name}}' }
      },
      {
        ...read,
        path: '/articles/:id',
        mcp: { name: 'read_article' },
        queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}', single: true }]
      },
      {
        ...read,
        path: '/articles',
        mcp: { name: 'list_articles' },
        queries: [{ table: 'articles', operation: 'select', order: { column: 'created_at', ascending: false } }]
      },
      ...many('platform', 247)
    ]
  }, { logger: false, env: { ...process.env, SECRETS_MASTER_KEY: Buffer.alloc(32, 'a').toString('base64') } })
})
