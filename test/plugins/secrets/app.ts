/** The plugin secrets in its own app, with only its dependencies. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { SecretsOptions } from '../../../plugins/secrets/index.js'
import type { TestEngine } from '../../helpers/app.js'
import { testApp } from '../../helpers/app.js'
import type { Ask } from '../../http/caller.js'

export const day = 86_400_000 // ms

export interface OpenOptions extends SecretsOptions {
  readonly tenants?: Readonly<Record<string, string>>
  /** Called with each line of the log, at `trace`. */
  readonly onLog?: (line: string) => void
}

export interface Opened {
  readonly app: FastifyInstance
  /** The administrator of a tenant, `ada`. */
  readonly as: (tenant: string) => Ask
}

export async function open (t: Test, engine: TestEngine, { tenants = {}, onLog, ...secrets }: OpenOptions = {}): Promise<Opened> {
  const { app, as } = await testApp(t, {
    engine,
    plugins: { secrets },
    tenants: Object.entries(tenants).map(([id, plan]) => ({ id, plan })),
    onLog
  })
  return { app, as: (tenant) => as({ role: 'admin', tenant_id: tenant, sub: 'ada' }) }
}

/** The secrets that the service returns for a route of the tenant. */
export async function valuesOf (app: FastifyInstance, tenant: string): Promise<Record<string, string | null>> {
  return Object.fromEntries(await app.secrets.values(tenant))
}
