/** The plugins users and login in their own app, with their dependencies; the clock is the test's. */
import type { Test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import type { LoginOptions } from '../../../plugins/login/index.js'
import { sql } from 'kysely'
import Fastify, { type FastifyInstance } from 'fastify'
import { noActor } from '../../../lib/database/audit.js'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import login from '../../../plugins/login/index.js'
import mfa from '../../../plugins/mfa/index.js'
import sessions from '../../../plugins/sessions/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import users from '../../../plugins/users/index.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import { testMasterKey } from '../../helpers/server.js'
import { testSecret } from '../../helpers/tokens.js'
import { caller, type Answer, type Ask } from '../../http/caller.js'
import { fakeClock } from '../secrets/app.js'

export const password = secretText('correct horse battery staple', 'a password')
export const wrong = secretText('incorrect horse battery', 'a wrong password')

export interface OpenOptions extends Pick<LoginOptions, 'registration'> {
  readonly tenants?: readonly string[]
  readonly clock?: ReturnType<typeof fakeClock>
  /** Second factors. Default: none. */
  readonly mfa?: boolean
}

export interface Opened {
  readonly app: FastifyInstance
  readonly ask: Ask
  readonly clock: ReturnType<typeof fakeClock>
  /** Logs in from an address. */
  readonly logIn: (tenant: string, email: string, password: string, address?: string) => Promise<Answer>
}

export type TestEngine = Pick<EngineOptions, 'provider' | 'postgres' | 'embedded'>

/** Without the plugin rate-limit: another test covers the limit per address. */
export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = [], clock = fakeClock(), registration, mfa: hasMfa = false }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, trustProxy: true, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  const { now } = clock
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret }, now })
  await app.register(tenancy)
  await app.register(sessions, { now })
  await app.register(users, { now })
  if (hasMfa) await app.register(mfa, { masterKey: testMasterKey, now })
  await app.register(login, { registration, now })
  await app.ready()
  for (const id of tenants) await app.tenants.create({ id, name: id })
  const ask = caller(t, app)
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
