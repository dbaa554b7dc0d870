/** The plugin in its own app, with its dependencies, and a local payprov with the tenants' accounts. */
import type { Test } from 'tap'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import secrets from '../../../plugins/secrets/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import tenantBilling, { type TenantBillingOptions } from '../../../plugins/tenant-billing/index.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import { payprovWorld, type Account, type PayprovWorld } from '../../helpers/payprov/index.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testMasterKey } from '../../helpers/server.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'

export const product = {
  name: 'Berth',
  description: 'A place in the harbour',
  prices: [{ amount: 2900, currency: 'usd', interval: 'month' }]
}

export interface Opened {
  readonly app: FastifyInstance
  readonly world: PayprovWorld
  /** The administrator of a tenant, `ada`. */
  readonly as: (tenant: string) => Ask
  /** The accounts of the tenants, which have stored their keys. */
  readonly accounts: Readonly<Record<string, Account>>
}

export async function open (t: Test, tenants: readonly string[], options: TenantBillingOptions = {}): Promise<Opened> {
  const { connectionString } = await postgresDatabase(t)
  const world = await payprovWorld(t)
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  const audit = scanLog(t, 'the audit log')
  t.teardown(async () => {
    audit.write(JSON.stringify(await app.db.selectFrom('tenantry.audit_log').selectAll().execute()))
    await app.close()
  })
  await app.register(database, { provider: 'postgres', postgres: { connectionString }, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(secrets, { masterKey: testMasterKey })
  await app.register(tenantBilling, { baseUrl: world.baseUrl, ...options })
  const as = (tenant: string) => caller(t, app, { token: signToken({ role: 'admin', tenant_id: tenant, sub: 'ada' }) })
  const accounts: Record<string, Account> = {}
  for (const id of tenants) {
    await app.tenants.create({ id, name: id, plan: 'pro' })
    accounts[id] = await openAccount(t, world, id, as(id))
  }
  return { app, world, as, accounts }
}

/** The tenant's account at payprov, whose key the tenant has stored. */
export async function openAccount (t: Test, world: PayprovWorld, tenant: string, admin: Ask): Promise<Account> {
  const key = secretText(`polar_oat_theKeyOf_${tenant}_0123456789`, `the key of ${tenant}`)
  const { status } = await admin('POST /tenant/secrets', { body: { key: 'payprov_api_key', value: key } })
  t.equal(status, 201)
  return world.addAccount(key)
}
