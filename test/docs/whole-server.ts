/** A server with every group of built-in endpoints. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { createServer } from '../../lib/server.js'
import { testEnv } from '../helpers/server.js'
import { testSecret } from '../helpers/tokens.js'

export function wholeServer (t: Test): FastifyInstance {
  const key = 'key-of-the-tests'
  const app = createServer({
    databaseProvider: 'embedded',
    migrate: 'manual',
    jwt: { secret: testSecret },
    analytics: { enabled: true },
    rbac: { enabled: true },
    auth: { registration: 'open' },
    agent: {
      enabled: true,
      llm: { provider: 'openai', model: 'chat', apiKey: key },
      embedding: { provider: 'openai', model: 'embedding', apiKey: key },
      mcpServers: [{ name: 'files', command: 'files' }]
    },
    mcp: { url: 'https://api.example.com' },
    plugins: { system: { metrics: { perTenant: true } } },
    routes: []
  }, {
    env: {
      ...testEnv,
      APP_URL: 'https://app.example.com',
      PAYMENT_PROVIDER: 'payprov',
      PAYPROV_API_KEY: key,
      PAYPROV_PRODUCT_MAP: '{"pro_monthly":"product"}'
    },
    logger: false
  })
  t.teardown(() => app.close())
  return app
}
