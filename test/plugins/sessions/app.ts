/** The plugin sessions in its own app, with its dependencies, and a route that shows whether a token is valid. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import conventions from '../../../plugins/conventions/index.js'
import type { SessionClaims } from '../../../plugins/sessions/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import { secretToken } from '../../helpers/log-scan.js'
import type { Reply, Request } from '../../http/caller.js'
import { platformKey } from '../auth/app.js'

export const actor = { userId: 'ada', address: '192.0.2.1' }

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly now?: () => number
  /** Default: true. */
  readonly tenancy?: boolean
}

export interface Opened {
  readonly app: FastifyInstance
  readonly ask: (target: string, token: string, request?: Request) => Promise<Reply>
  /** The status that the token gets. */
  readonly status: (token: string) => Promise<number>
  /** Opens a session. */
  readonly enter: (claims?: Partial<SessionClaims>) => Promise<string>
  /** A token that `app.sessions` does not know. */
  readonly mint: (claims?: Partial<Claims>, expiresIn?: number) => string
}

export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = [], now, tenancy: withTenancy = true }: OpenOptions = {}
): Promise<Opened> {
  // No test calls this provider: the tokens of its users are signed by the server here.
  const authProviders = { idp: { issuer: 'https://idp.example', jwksUri: 'https://idp.example/keys', audience: 'api' } }
  const { app, ask: plain } = await testApp(t, {
    engine,
    plugins: { auth: { authProviders, apiKey: platformKey, now }, ...withTenancy && { tenancy: {} }, sessions: { now } },
    tenants,
    routes: (app) =>
      app.register(async (group) => {
        await group.register(conventions)
        group.get('/who', { config: { access: 'user' } }, async ({ auth }) => ({ auth }))
      })
  })
  const ask: Opened['ask'] = (target, token, request) => plain(target, { token, ...request })
  return {
    app,
    ask,
    status: async (token) => (await ask('GET /who', token)).status,
    async enter (claims) {
      const { token } = await app.sessions.open({ sub: 'ada', role: 'user', tenant_id: 'acme', ...claims })
      return secretToken(token)
    },
    mint: (claims, expiresIn = 3600) => secretToken(app.auth.sign({ sub: 'ada', tenant_id: 'acme', ...claims }, { expiresIn }))
  }
}
