/** The document of the identity benchmark: routes that need a permission, with the platform's roles on or off. */
import type { ConfigInput } from 'tenantry'

/** The permission that the measured routes require. */
export const permission = 'articles:read'

/** Settings: DATABASE_URL, JWT_SECRET, MAIL_ORIGIN, APP_URL. */
export function identityDocument (rbac: boolean): ConfigInput {
  return {
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 10 } },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    rbac: { enabled: rbac },
    // Password attempts are limited by address: each attempt of the benchmark comes from a different one.
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
