/** The plugin mfa in its own app, with only its dependencies; and an authenticator app. */
import type { FastifyInstance } from 'fastify'
import jsQR from 'jsqr'
import { sql } from 'kysely'
import { PNG } from 'pngjs'
import type { Test } from 'tap'
import { codeOf, stepSeconds } from '../../../plugins/mfa/codes.js'
import type { MfaOptions } from '../../../plugins/mfa/index.js'
import { type TestApp, testApp, type TestEngine } from '../../helpers/app.js'
import { type FakeClock, fakeClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import type { Ask } from '../../http/caller.js'

/** The platform's key. */
export const testApiKey = secretText('a platform key of the tests'.replaceAll(' ', '-'), 'the platform key')

export interface Opened extends TestApp {
  readonly clock: FakeClock
}

export interface OpenOptions extends MfaOptions {
  readonly tenants?: readonly string[]
  readonly clock?: FakeClock
}

export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = [], clock = fakeClock(), ...options }: OpenOptions = {}
): Promise<Opened> {
  const plugins = { auth: { apiKey: testApiKey }, tenancy: {}, mfa: { now: clock.now, ...options } }
  return { clock, ...await testApp(t, { engine, plugins, tenants }) }
}

/** An authenticator app with a secret. */
export interface Phone {
  readonly secret: string
  /** The current code, or the code of a later step. */
  code(later?: number): string
  /** A code that matches none of the accepted steps. */
  wrong(): string
}

export function phoneOf (secret: string, { now }: Pick<FakeClock, 'now'>): Phone {
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
export async function setUp (t: Test, ask: Ask, clock: FakeClock, code?: string): Promise<Phone> {
  const { status, body } = await ask('POST /mfa/setup', code === undefined ? {} : { body: { code } })
  t.equal(status, 200, 'it is set up')
  return phoneOf(String(body['secret']), clock)
}

/** Sets it up and enables it; the current codes are used up. */
export async function enrol (t: Test, ask: Ask, clock: FakeClock): Promise<{ phone: Phone, backupCodes: string[] }> {
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
