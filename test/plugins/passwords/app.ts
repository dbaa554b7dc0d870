/** The plugins of users and their mails in their own app; its clock is the test's, and its mails are recorded. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import type { MailMessage } from '../../../plugins/mail/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import { type FakeClock, fakeClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import { until } from '../../helpers/until.js'
import type { Ask, Reply } from '../../http/caller.js'
import { platformKey } from '../auth/app.js'
import { password } from '../login/app.js'

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly clock?: FakeClock
  /** Called before a mail is recorded; a rejection loses it. */
  readonly onMail?: (mail: MailMessage) => Promise<void>
  /** Concurrent jobs. Default: 4. */
  readonly workers?: number
  /** Second factors. Default: none. */
  readonly mfa?: boolean
}

export interface Opened {
  readonly app: FastifyInstance
  readonly ask: Ask
  readonly clock: FakeClock
  /** The sent mails, in order. */
  readonly mails: MailMessage[]
  /** Resolves when no mail is being sent. */
  readonly settled: () => Promise<void>
  readonly logIn: (tenant: string, email: string, given?: string, address?: string) => Promise<Reply>
  readonly forgot: (tenant: string, email: string, address?: string) => Promise<Reply>
}

export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = [], clock = fakeClock(), onMail = async () => {}, workers, mfa = false }: OpenOptions = {}
): Promise<Opened> {
  const { now } = clock
  const mails: MailMessage[] = []
  const { app, ask } = await testApp(t, {
    engine,
    server: { trustProxy: true },
    plugins: {
      auth: { apiKey: platformKey, now },
      tenancy: {},
      queue: { workers },
      'api-keys': { now },
      'tenant-rbac': {},
      sessions: { now },
      mail: {
        mail: undefined,
        appUrl: 'https://app.example.com/',
        now,
        async deliver (message) {
          secretText(tokenOf(message), 'the token of a link')
          await onMail(message)
          mails.push(message)
        }
      },
      users: { now },
      ...mfa && { mfa: { now } },
      login: { registration: 'open', now },
      passwords: { now }
    },
    tenants
  })
  const from = (address: string, tenant: string) => ({ headers: { 'x-forwarded-for': address }, ...tenant !== '' && { tenant } })
  return {
    app,
    ask,
    clock,
    mails,
    settled: () => settled(app),
    logIn: (tenant, email, given = password, address = '192.0.2.1') =>
      ask('POST /auth/login', { body: { email, password: given }, ...from(address, tenant) }),
    forgot: (tenant, email, address = '192.0.2.1') => ask('POST /auth/password/forgot', { body: { email }, ...from(address, tenant) })
  }
}

/** Resolves when all mails of the database were sent. */
export async function settled ({ db }: FastifyInstance): Promise<void> {
  await until('all mails are sent', async () => {
    const { rows } = await sql`select from tenantry_queue.job where task = 'auth.mail' and state < 'completed' limit 1`.execute(db)
    return rows.length === 0
  })
}

/** The token of the link in a mail. */
export function tokenOf ({ link }: Pick<MailMessage, 'link'>): string {
  return decodeURIComponent(new URL(link).hash.replace('#token=', ''))
}
