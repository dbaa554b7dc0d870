/** The plugin mfa in its own app, with only its dependencies; and an authenticator app. */
import type { Test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import jsQR from 'jsqr'
import { sql } from 'kysely'
import { PNG } from 'pngjs'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import mfa, { type MfaOptions } from '../../../plugins/mfa/index.js'
import { codeOf, stepSeconds } from '../../../plugins/mfa/totp.js'
import tenancy from '../../../plugins/tenancy/index.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import { testMasterKey } from '../../helpers/server.js'
import { signToken, testSecret, type TokenClaims } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'
import { fakeClock } from '../secrets/app.js'

/** The platform's key. */
export const testApiKey = secretText('a platform key of the tests'.replaceAll(' ', '-'), 'the platform key')

export type Clock = ReturnType<typeof fakeClock>

export interface Opened {
  readonly app: FastifyInstance
  readonly clock: Clock
  /** The user of the token. */
  readonly as: (claims: TokenClaims) => Ask
}

export interface OpenOptions extends MfaOptions {
  readonly tenants?: readonly string[]
  readonly clock?: Clock
}

export async function open (
  t: Test,
  engine: Pick<EngineOptions, 'provider' | 'postgres' | 'embedded'>,
  { tenants = [], clock = fakeClock(), ...options }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret }, apiKey: testApiKey })
  await app.register(tenancy)
  await app.register(mfa, { masterKey: testMasterKey, now: clock.now, ...options })
  await app.ready()
  for (const id of tenants) await app.tenants.create({ id, name: id })
  return { app, clock, as: (claims) => caller(t, app, { token: signToken(claims) }) }
}

/** An authenticator app with a secret. */
export interface Phone {
  readonly secret: string
  /** The current code, or the code of a later step. */
  code(later?: number): string
  /** A code that matches none of the accepted steps. */
  wrong(): string
}

export function phoneOf (secret: string, { now }: Clock): Phone {
  const step = () => Math.floor(now() / 1000 / stepSeconds)
  return {
    secret: secretText(secret, 'the secret of a second factor'),
    code: (later = 0) => codeOf(secret, step() + later),
    wrong () {
      const near = [-1, 0, 1].map((later) => codeOf(secret, step() + later))
      return ['000000', '111111', '222222', '333333'].find((code) => !near.includes(code)) ?? ''
    }
  }
}

/** Sets up a second factor. */
export async function setUp (t: Test, ask: Ask, clock: Clock, code?: string): Promise<Phone> {
  const { status, body } = await ask('POST /mfa/setup', code === undefined ? {} : { body: { code } })
  t.equal(status, 200, 'it is set up')
  return phoneOf(String(body['secret']), clock)
}

/** Sets it up and enables it; the current codes are used up. */
export async function enrol (t: Test, ask: Ask, clock: Clock): Promise<{ phone: Phone, backupCodes: string[] }> {
  const phone = await setUp(t, ask, clock)
  const { body } = await ask('POST /mfa/enable', { body: { code: phone.code() } })
  t.match(body, { enabled: true }, 'it is enabled')
  const backupCodes = listOf(body['backupCodes'])
  for (const code of backupCodes) secretText(code, 'a backup code')
  return { phone, backupCodes }
}

export function listOf (value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : []
}

/** The text of a QR code in a data URL, decoded by a library independent of the encoder. */
export function scan (dataUrl: string): string | undefined {
  const { data, width, height } = PNG.sync.read(Buffer.from(dataUrl.replace(/^data:image\/png;base64,/, ''), 'base64'))
  // Both packages are CommonJS, one of them with its own default export.
  return jsQR.default(new Uint8ClampedArray(data), width, height)?.data
}

/** The audit log of second factors: `action outcome user tenant`, in order. */
export async function audited (app: FastifyInstance): Promise<string[]> {
  const { rows } = await sql<
    { line: string }
  >`select action || ' ' || outcome || ' ' || coalesce(user_id, '?') || ' ' || tenant_id as line from tenantry.audit_log where action like 'mfa.%' order by id`
    .execute(app.db)
  return rows.map(({ line }) => line)
}
