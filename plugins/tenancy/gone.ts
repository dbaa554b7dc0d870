/** The end of data that a process keeps in memory for a tenant beyond requests, such as connections to other services. */
import type { FastifyInstance } from 'fastify'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { listen } from '../../lib/plugin/lifecycle.js'

/** Calls `forget` on every server when a tenant is being or was deleted: its data must not reach a later tenant with the same id. */
export function whenGone (app: FastifyInstance, forget: (tenant: Owner) => void): void {
  const { events, tenants, log } = app

  async function check (tenant: Owner): Promise<void> {
    const found = await tenants.get(tenant)
    if (found === null || found.status === 'deleting') forget(tenant)
  }

  listen(app, events, {
    tenant (tenant) {
      if (tenant === platformRef) return
      check(tenant).catch((err: unknown) => log.warn({ err, tenant }, 'the data in memory of a tenant was kept: the tenant could not be read'))
    }
  })
}
