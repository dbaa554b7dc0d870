/** The plugin secrets in its own app, with only its dependencies. */
import type { Test } from 'tap'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import secrets, { type SecretsOptions } from '../../../plugins/secrets/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import type { EngineOptions } from '../../../lib/database/index.js'
import { scanLog } from '../../helpers/log-scan.js'
import { testMasterKey } from '../../helpers/server.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'

export const day = 86_400_000 // ms

/** A clock that the test advances. */
export function fakeClock (start = Date.parse('2026-06-01T12:00:00Z')) {
  let time = start
  return {
    now: () => time,
    forward (ms: number) {
      time += ms
    }
  }
}

export interface OpenOptions extends SecretsOptions {
  readonly tenants?: Readonly<Record<string, string>>
  /** Called with each line of the log, at trace. */
  readonly onLog?: (line: string) => void
}

export interface Opened {
  readonly app: FastifyInstance
  /** The administrator of a tenant, `ada`. */
  readonly as: (tenant: string) => Ask
}

export async function open (
  t: Test,
  engine: Pick<EngineOptions, 'provider' | 'postgres' | 'embedded'>,
  { tenants = {}, onLog, previousKeys, now, ...keys }: OpenOptions = {}
): Promise<Opened> {
  const scan = scanLog(t, 'the log of the app')
  const app = Fastify({
    pluginTimeout: 0,
    logger: {
      level: 'trace',
      stream: {
        write (line: string) {
          scan.write(line)
          onLog?.(line)
        }
      }
    }
  })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(secrets, { masterKey: 'masterKey' in keys ? keys.masterKey : testMasterKey, previousKeys, now })
  for (const [id, plan] of Object.entries(tenants)) await app.tenants.create({ id, name: id, plan })
  return { app, as: (tenant) => caller(t, app, { token: signToken({ role: 'admin', tenant_id: tenant, sub: 'ada' }) }) }
}

/** The secrets that the service returns for a route of the tenant. */
export async function valuesOf (app: FastifyInstance, tenant: string): Promise<Record<string, string | null>> {
  return Object.fromEntries(await app.secrets.values(tenant))
}
