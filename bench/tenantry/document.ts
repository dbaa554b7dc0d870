/** The same API as bench/hand-written, as a document. */
import type { ConfigInput } from 'tenantry'

const document: ConfigInput = {
  databaseProvider: 'postgres',
  postgres: { connectionString: '{{env.DATABASE_URL}}', pool: { max: 10 } },
  migrate: 'auto',
  jwt: { secret: '{{env.JWT_SECRET}}' },
  rateLimit: { enabled: true, default: { max: 1_000_000_000, windowMs: 60_000 } },
  // The tenants' plan would reject requests after the first hundred.
  plans: { free: { limits: { api: { requestsPerMinute: -1 } } } },
  routes: [
    {
      path: '/articles/:id',
      method: 'get',
      requireAuth: true,
      request: { params: { id: { type: 'string', format: 'uuid' } } },
      queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}' }]
    },
    {
      path: '/articles',
      method: 'get',
      requireAuth: true,
      request: { query: {} },
      queries: [{ table: 'articles', operation: 'select', order: [{ column: 'created_at', ascending: false }, { column: 'id' }] }]
    },
    {
      path: '/articles',
      method: 'post',
      requireAuth: true,
      request: {
        body: {
          title: { type: 'string', required: true, minLength: 1, maxLength: 200 },
          body: { type: 'string', required: true, maxLength: 10_000 },
          status: { type: 'string', enum: ['draft', 'pending_review', 'published'] },
          views: { type: 'integer', minimum: 0 }
        }
      },
      queries: [{ table: 'articles', operation: 'insert' }]
    },
    {
      path: '/articles/:id/touch',
      method: 'post',
      requireAuth: true,
      request: { params: { id: { type: 'string', format: 'uuid' } }, body: {} },
      workflow: {
        steps: [
          {
            id: 'article',
            type: 'database',
            operation: 'select',
            table: 'articles',
            single: true,
            filters: [{ column: 'id', value: '{{params.id}}' }]
          },
          {
            id: 'touched',
            type: 'database',
            operation: 'update',
            table: 'articles',
            single: true,
            data: { views: '{{steps.article.result.views}}' },
            filters: [{ column: 'id', value: '{{steps.article.result.id}}' }]
          },
          {
            id: 'read',
            type: 'database',
            operation: 'select',
            table: 'articles',
            single: true,
            filters: [{ column: 'id', value: '{{steps.touched.result.id}}' }]
          }
        ]
      }
    },
    {
      path: '/greetings/:name',
      method: 'get',
      requireAuth: true,
      request: { params: { name: { type: 'string', maxLength: 50 } }, query: { page: { type: 'integer', minimum: 0 } } },
      response: {
        message: 'Hello {{params.name}}',
        tenant: '{{auth.tenant_id}}',
        caller: { id: '{{auth.sub}}', role: '{{auth.role}}' },
        page: '{{query.page || 1}}'
      }
    }
  ]
}

export default document
