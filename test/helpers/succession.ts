/** Tenants that end, and later tenants with their ids. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'

/**
 * Makes the tenant a later one with the same id. All servers of the database miss the notices. Resolves when the server knows that it may
 * have missed some.
 */
export async function missSuccession (app: FastifyInstance, id: string): Promise<void> {
  const missed = new Promise<void>((resolve) => {
    app.events.onGap(resolve)
  })
  await sql`update tenantry.tenants set created_at = created_at + interval '1 second' where id = ${id}`.execute(app.db)
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'`
    .execute(app.db)
  await missed
}

/** Deletes the tenant, and creates a later one with the same id. */
export async function replaceTenant (app: FastifyInstance, id: string): Promise<void> {
  await app.tenants.delete(id)
  await app.tenants.create({ id, name: 'Later' })
}
