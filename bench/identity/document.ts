/** The document of the benchmark of identity: routes that need a permission, with the platform's roles on or off. */
import type { ConfigInput } from 'tenantry'

/** What the measured routes ask of their callers. */
export const permission = 'articles:read'

/** Settings: DATABASE_URL, JWT_SECRET, MAIL_ORIGIN, APP_URL. */
export function identityDocument (rbac: boolean): ConfigInput {
  return {
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 10 } },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    rbac: { enabled: rbac },
    // Tries of a password are limited by address: each of the benchmark's comes from another one.
    server: { trustProxy: 1 },
    rateLimit: { enabled: false },
    credentials: { email: { apiKey: 'key', baseUrl: '{{env.MAIL_ORIGIN}}' } },
    auth: { mail: { connector: 'email', from: 'bench@example.com' } },
    routes: [
      {
        path: '/greetings/:name',
        method: 'get',
        requiredPermissions: [permission],
        request: { params: { name: { type: 'string', maxLength: 50 } } },
        response: { message: 'Hello {{params.name}}' }
      },
      {
        path: '/articles/:id',
        method: 'get',
        requiredPermissions: [permission],
        request: { params: { id: { type: 'string', format: 'uuid' } } },
        queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}' }]
      }
    ]
  }
}
