/** The published build of tenantry, with a chat model and documents. `POST /-/ledger` reserves and settles like a call. */
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'

export interface AgentServerSettings extends ServerSettings {
  readonly masterKey: string
  /** The provider's address, with `/v1`. */
  readonly provider: string
  readonly dimensions: number
}

/** Microseconds a call. */
export interface LedgerReport {
  readonly times: readonly number[]
}

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const settings: AgentServerSettings = JSON.parse(process.argv[2] ?? '{}')
const { provider: baseUrl, dimensions } = settings

await serve(async ({ connectionString, jwtSecret }) => {
  const env = { NODE_ENV: 'production', SECRETS_MASTER_KEY: settings.masterKey }
  const app = createServer({
    databaseProvider: 'postgres',
    migrate: 'auto',
    postgres: { connectionString },
    jwt: { secret: jwtSecret },
    rateLimit: { enabled: false },
    plans: {
      open: { price: { monthly: 0 }, limits: { api: { requestsPerMinute: -1 }, ai: { llmTokensPerMonth: -1, maxCostPerMonth: -1 } } }
    },
    server: { bodyLimit: 4_194_304 },
    agent: {
      enabled: true,
      llm: { provider: 'local', model: 'chat', baseUrl, maxOutputTokens: 1000 },
      embedding: { provider: 'local', model: 'vectors', baseUrl, dimensions },
      models: [{ id: 'chat', provider: 'local', kind: 'chat', price: { input: 1, output: 2 } }, {
        id: 'vectors',
        provider: 'local',
        kind: 'embedding',
        price: { input: 0.1, output: 0 }
      }]
    },
    routes: []
  }, { env, logger: { level: 'warn' } })

  app.post<{ Querystring: { count: string, tenant: string } }>('/-/ledger', async ({ query: { count, tenant } }): Promise<LedgerReport> => {
    const times: number[] = []
    for (let call = 0; call < Number(count); call++) {
      const start = performance.now()
      const reservation = await app.usage.reserveAll(tenant, { llm_tokens: 120, ai_cost: 220 })
      await reservation.settle({ llm_tokens: 60, ai_cost: 100 })
      times.push(Math.round((performance.now() - start) * 1000))
    }
    return { times }
  })
  return app
})
