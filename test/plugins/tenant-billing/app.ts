/** The plugin in its own app, with its dependencies, and a local payprov with the tenants' accounts. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { TenantBillingOptions } from '../../../plugins/tenant-billing/index.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { type Account, type PayprovWorld, payprovWorld } from '../../helpers/payprov/index.js'
import type { Ask } from '../../http/caller.js'

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
  const world = await payprovWorld(t)
  const { app, as: owner } = await testApp(t, {
    plugins: { secrets: {}, 'tenant-billing': { baseUrl: world.baseUrl, now: world.now, ...options } },
    tenants: tenants.map((id) => ({ id, plan: 'pro' }))
  })
  const as = (tenant: string) => owner({ role: 'admin', tenant_id: tenant, sub: 'ada' })
  const accounts: Record<string, Account> = {}
  for (const id of tenants) accounts[id] = await openAccount(t, world, id, as(id))
  return { app, world, as, accounts }
}

/** The tenant's account at payprov, whose key the tenant has stored. */
export async function openAccount (t: Test, world: PayprovWorld, tenant: string, admin: Ask): Promise<Account> {
  const key = secretText(`polar_oat_theKeyOf_${tenant}_0123456789`, `the key of ${tenant}`)
  const { status } = await admin('POST /tenant/secrets', { body: { key: 'payprov_api_key', value: key } })
  t.equal(status, 201)
  return world.addAccount(key)
}
