/** The plugins users and login in their own app, with their dependencies; the clock is the test's. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import type { LoginOptions } from '../../../plugins/login/index.js'
import type { MfaOptions } from '../../../plugins/mfa/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import { type FakeClock, fakeClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import { testSecret } from '../../helpers/tokens.js'
import type { Ask, Reply } from '../../http/caller.js'

export const password = secretText('correct horse battery staple', 'a password')
export const wrong = secretText('incorrect horse battery', 'a wrong password')

export interface OpenOptions extends Pick<LoginOptions, 'registration'> {
  readonly tenants?: readonly string[]
  readonly clock?: FakeClock
  /** Second factors. Default: none. */
  readonly mfa?: boolean | Pick<MfaOptions, 'masterKey'>
  /** Seconds that a token lives. Default: one hour. */
  readonly expiresIn?: number
  /** A gateway names the tenant. Default: false. */
  readonly trustHeader?: boolean
}

export interface Opened {
  readonly app: FastifyInstance
  readonly ask: Ask
  readonly clock: FakeClock
  /** Logs in from an address. */
  readonly logIn: (tenant: string, email: string, password: string, address?: string) => Promise<Reply>
}

/** Without the plugin rate-limit: another test covers the limit per address. */
export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = [], clock = fakeClock(), registration, mfa = false, expiresIn = 3600, trustHeader = false }: OpenOptions = {}
): Promise<Opened> {
  const { now } = clock
  const { app, ask } = await testApp(t, {
    engine,
    server: { trustProxy: true },
    plugins: {
      auth: { now, jwt: { secret: testSecret, expiresIn } },
      tenancy: { trustHeader },
      sessions: { now },
      users: { now },
      ...mfa !== false && { mfa: { now, ...mfa !== true && mfa } },
      login: { registration, now }
    },
    tenants
  })
  return {
    app,
    ask,
    clock,
    logIn: (tenant, email, given, address = '192.0.2.1') =>
      ask('POST /auth/login', {
        body: { email, password: given },
        headers: { 'x-forwarded-for': address },
        ...tenant !== '' && { tenant }
      })
  }
}

export async function addUser (app: FastifyInstance, tenant: string, email: string, role?: string): Promise<string> {
  const { id } = await app.users.create({ tenant, email, password, ...role !== undefined && { role } }, noActor)
  return id
}

/** The audit log of logins: `tenant action outcome target reason`, in order. */
export async function audited (app: FastifyInstance): Promise<string[]> {
  const { rows } = await sql<
    { line: string }
  >`select concat_ws(' ', tenant_id, action, outcome, target, user_id, address, details ->> 'reason') as line
    from tenantry.audit_log where action in ('auth.login', 'auth.mfa', 'auth.register', 'user.create') order by id`.execute(app.db)
  return rows.map(({ line }) => line)
}

/** The claims of a token, unverified. */
export function claimsOf (token: unknown): Record<string, unknown> {
  return Object(JSON.parse(Buffer.from(String(token).split('.')[1] ?? '', 'base64url').toString()))
}
