/**
 * Logins with e-mail address and password, second factors and registration: `/auth/login`, `/auth/mfa/verify` and
 * `/auth/register` (DESIGN 5). A route group. Needs the plugins database, auth, tenancy, sessions and users; with the plugin mfa
 * users who have a second factor are asked for it.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../sessions/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../users/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createAttempts } from '../../lib/attempts.js'
import { everyHour } from '../../lib/database/sweeping.js'
import conventions from '../conventions/index.js'
import type {} from '../mfa/index.js'
import { hasSecondFactors } from '../mfa/databases.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { loginRoutes } from './routes.js'
import { createLogin } from './service.js'
import { createTries } from './tries.js'

export interface LoginOptions {
  /** Whether whoever names a tenant may become a user of it. Default: `closed`. */
  readonly registration?: 'open' | 'closed' | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function login (app: FastifyInstance, { registration = 'closed', now = Date.now }: LoginOptions): Promise<void> {
  requireDecorator(app, 'db', 'database', 'login')
  requireDecorator(app, 'auth', 'auth', 'login')
  requireDecorator(app, 'tenants', 'tenancy', 'login')
  requireDecorator(app, 'sessions', 'sessions', 'login')
  requireDecorator(app, 'users', 'users', 'login')
  const { db, engine, log, sessions, users } = app
  const mfa = app.hasDecorator('mfa') ? app.mfa : null
  app.addHook('onReady', async () => {
    if (mfa === null && hasSecondFactors(db)) throw new Error('register the plugin "tenantry/plugins/mfa" before "tenantry/plugins/login", in the same context or in one above it: otherwise a password alone logs in a user who has a second factor')
  })
  const dbFor = (tenant: string) => engine.kyselyFor(tenant)
  const tries = createTries((tenant) => createAttempts(dbFor(tenant), now))
  const stopSweeping = everyHour(() => createAttempts(db, now).sweep(), (err) => log.warn({ err }, 'old tries of passwords could not be swept; it is tried again'))
  app.addHook('onClose', stopSweeping)

  await app.register(conventions)
  loginRoutes(app, createLogin({ users, sessions, mfa, tries, dbFor, now }), { isOpen: registration === 'open', hasMfa: mfa !== null })
}

export default fp(login, { name: 'tenantry-login', fastify: '5.x', encapsulate: true })
