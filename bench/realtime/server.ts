/** The published build of tenantry, with watched tables. `GET /-/process` reports the memory of the process after a garbage collection. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ConfigInput } from 'tenantry'
import { serve } from '../server-process.js'

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const columns = { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' }, body: { type: 'text' } } as const

const document: ConfigInput = {
  databaseProvider: 'postgres',
  postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 10 } },
  migrate: 'auto',
  jwt: { secret: '{{env.JWT_SECRET}}' },
  rateLimit: { enabled: false },
  tables: { plain: { tenantScoped: true, columns }, unheard: { tenantScoped: true, columns }, notes: { tenantScoped: true, columns } },
  routes: ['plain', 'unheard', 'notes'].map((table) => ({
    path: `/${table}`,
    method: 'post' as const,
    requireAuth: true,
    queries: [{ table, operation: 'insert' as const }]
  })),
  realtime: { tables: { unheard: {}, notes: {} } },
  plans: {
    bench: {
      price: { monthly: 1 },
      limits: { api: { requestsPerMinute: -1 }, websocket: { maxConnections: -1, maxRooms: -1, maxEntitiesWatched: -1 } }
    }
  } as ConfigInput['plans']
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

await serve(async ({ connectionString, jwtSecret }) => {
  const env = {
    NODE_ENV: 'production',
    DATABASE_URL: connectionString,
    JWT_SECRET: jwtSecret,
    SECRETS_MASTER_KEY: Buffer.alloc(32, 7).toString('base64')
  }
  const app = createServer(document, { env, logger: { level: 'warn' } })
  app.get('/-/process', async () => {
    collectGarbage()
    const { heapUsed: heap, rss } = process.memoryUsage()
    return { heap, rss }
  })
  return app
})
