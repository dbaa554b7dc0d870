/** The plugin sessions in its own app, with its dependencies, and a route that shows whether a token is valid. */
import type { Test } from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../../../plugins/auth/index.js'
import conventions from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import sessions, { type SessionClaims } from '../../../plugins/sessions/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import type { DatabaseSection } from '../../helpers/postgres.js'
import { scanLog, secretToken } from '../../helpers/log-scan.js'
import { testSecret } from '../../helpers/tokens.js'
import { caller, type Answer, type Request } from '../../http/caller.js'
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
  readonly ask: (target: string, token: string, request?: Request) => Promise<Answer>
  /** The status that the token gets. */
  readonly status: (token: string) => Promise<number>
  /** Opens a session. */
  readonly enter: (claims?: Partial<SessionClaims>) => Promise<string>
  /** A token that `app.sessions` does not know. */
  readonly mint: (claims?: Partial<Claims>, expiresIn?: number) => string
}

export async function open (
  t: Test,
  engine: DatabaseSection,
  { tenants = [], now, tenancy: withTenancy = true }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, migrate: 'auto' })
  // It is never called: its users have tokens of the server's own key here.
  const authProviders = { idp: { issuer: 'https://idp.example', jwksUri: 'https://idp.example/keys', audience: 'api' } }
  await app.register(auth, { jwt: { secret: testSecret }, authProviders, apiKey: platformKey, now })
  if (withTenancy) await app.register(tenancy)
  await app.register(sessions, { now })
  await app.register(async (group) => {
    await group.register(conventions)
    group.get('/who', { config: { access: 'user' } }, async ({ auth }) => ({ auth }))
  })
  for (const id of tenants) await app.tenants.create({ id, name: id, plan: 'free' })
  const plain = caller(t, app)
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
