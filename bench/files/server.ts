/** The published build of tenantry, with files in a folder and one row route. */
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'

export interface FilesSettings extends ServerSettings {
  readonly masterKey: string
  readonly folder: string
}

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const { masterKey, folder }: FilesSettings = JSON.parse(process.argv[2] ?? '{}')

await serve(async ({ connectionString, jwtSecret }) => {
  const env = { NODE_ENV: 'production', DATABASE_URL: connectionString, JWT_SECRET: jwtSecret, SECRETS_MASTER_KEY: masterKey }
  return createServer({
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 10 } },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    files: { path: folder },
    // The measured tenants exceed the limits of the built-in plans.
    plans: { measured: { limits: { api: { requestsPerMinute: -1 }, fileStorage: { maxStorageMB: -1, maxFileSizeMB: -1 } } } },
    rateLimit: { enabled: false },
    routes: [{
      path: '/items/:id',
      method: 'get',
      requireAuth: true,
      request: { params: { id: { type: 'integer' } } },
      queries: [{ table: 'items', operation: 'select', id: '{{params.id}}' }]
    }]
  }, { env, logger: { level: 'warn' } })
})
