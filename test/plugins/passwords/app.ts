/** The plugins of users and their mails in their own app; its clock is the test's, and its mails are recorded. */
import type { Test } from 'tap'
import type { MailMessage } from '../../../plugins/mail/index.js'
import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import auth from '../../../plugins/auth/index.js'
import apiKeys from '../../../plugins/api-keys/index.js'
import database from '../../../plugins/database/index.js'
import login from '../../../plugins/login/index.js'
import mail from '../../../plugins/mail/index.js'
import passwords from '../../../plugins/passwords/index.js'
import queue from '../../../plugins/queue/index.js'
import sessions from '../../../plugins/sessions/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import tenantRbac from '../../../plugins/tenant-rbac/index.js'
import users from '../../../plugins/users/index.js'
import { until } from '../../helpers/instances.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import type { DatabaseSection } from '../../helpers/postgres.js'
import { testSecret } from '../../helpers/tokens.js'
import { caller, type Answer, type Ask } from '../../http/caller.js'
import { platformKey } from '../auth/app.js'
import { password } from '../login/app.js'
import { fakeClock } from '../secrets/app.js'

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly clock?: ReturnType<typeof fakeClock>
  /** Called before a mail is recorded; a rejection loses it. */
  readonly onMail?: (mail: MailMessage) => Promise<void>
  /** Concurrent jobs. Default: 4. */
  readonly workers?: number
}

export interface Opened {
  readonly app: FastifyInstance
  readonly ask: Ask
  readonly clock: ReturnType<typeof fakeClock>
  /** The sent mails, in order. */
  readonly mails: MailMessage[]
  /** Resolves when no mail is being sent. */
  readonly settled: () => Promise<void>
  readonly logIn: (tenant: string, email: string, given?: string, address?: string) => Promise<Answer>
  readonly forgot: (tenant: string, email: string, address?: string) => Promise<Answer>
}

export async function open (
  t: Test,
  engine: DatabaseSection,
  { tenants = [], clock = fakeClock(), onMail = async () => {}, workers }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, trustProxy: true, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  const { now } = clock
  const mails: MailMessage[] = []
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret }, apiKey: platformKey, now })
  await app.register(tenancy)
  await app.register(queue, { workers })
  await app.register(apiKeys, { now })
  await app.register(tenantRbac)
  await app.register(sessions, { now })
  await app.register(mail, {
    appUrl: 'https://app.example.com/',
    now,
    async deliver (message) {
      secretText(tokenOf(message), 'the token of a link')
      await onMail(message)
      mails.push(message)
    }
  })
  await app.register(users, { now })
  await app.register(login, { registration: 'open', now })
  await app.register(passwords, { now })
  await app.ready()
  for (const id of tenants) await app.tenants.create({ id, name: id })
  const ask = caller(t, app)
  const from = (address: string, tenant: string) => ({ headers: { 'x-forwarded-for': address }, ...tenant !== '' && { tenant } })
  return {
    app,
    ask,
    clock,
    mails,
    settled: () => settled(t, app),
    logIn: (tenant, email, given = password, address = '192.0.2.1') =>
      ask('POST /auth/login', { body: { email, password: given }, ...from(address, tenant) }),
    forgot: (tenant, email, address = '192.0.2.1') => ask('POST /auth/password/forgot', { body: { email }, ...from(address, tenant) })
  }
}

/** Resolves when all mails of the database were sent. */
export async function settled (t: Test, { db }: FastifyInstance): Promise<void> {
  await until(t, 'all mails are sent', async () => {
    const { rows } = await sql`select from tenantry_queue.job where task = 'auth.mail' and state < 'completed' limit 1`.execute(db)
    return rows.length === 0
  })
}

/** The token of the link in a mail. */
export function tokenOf ({ link }: Pick<MailMessage, 'link'>): string {
  return decodeURIComponent(new URL(link).hash.replace('#token=', ''))
}
