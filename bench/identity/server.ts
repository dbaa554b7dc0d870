/**
 * The published build of tenantry, with users. `POST /-/users` creates them. `GET /-/delay` returns the delay of the event loop since the
 * last request.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'
import { identityDocument } from './document.js'

export interface IdentitySettings extends ServerSettings {
  readonly masterKey: string
  /** The mail service. */
  readonly mailOrigin: string
  /** Whether the platform's roles are on. */
  readonly rbac: boolean
}

export interface BenchUser {
  readonly tenant: string
  readonly email: string
  readonly password: string
}

/** Milliseconds; an idle loop shows one millisecond, since it is sampled once in each. */
export interface DelayReport {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const settings: IdentitySettings = JSON.parse(process.argv[2] ?? '{}')

await serve(async ({ connectionString, jwtSecret }) => {
  const env = {
    NODE_ENV: 'production',
    DATABASE_URL: connectionString,
    JWT_SECRET: jwtSecret,
    SECRETS_MASTER_KEY: settings.masterKey,
    MAIL_ORIGIN: settings.mailOrigin,
    APP_URL: 'https://app.example.com'
  }
  const app = createServer(identityDocument(settings.rbac), { env, logger: { level: 'warn' } })
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()

  app.post<{ Body: readonly BenchUser[] }>('/-/users', async ({ body }) => {
    for (const user of body) await app.users.create(user, { userId: null, address: null })
    return { users: body.length }
  })

  app.get('/-/delay', async (): Promise<DelayReport> => {
    const [p50, p99, max] = [delay.percentile(50), delay.percentile(99), delay.max].map((nanoseconds) => nanoseconds / 1e6)
    delay.reset()
    return { p50: p50 ?? NaN, p99: p99 ?? NaN, max: max ?? NaN }
  })
  return app
})
