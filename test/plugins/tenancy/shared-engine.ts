/** One database for all apps of a test file. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import { createEngine } from '../../../lib/database/index.js'
import { postgresSection } from '../../helpers/postgres.js'

/** Registers a stand-in for the plugin database, on an engine that ends with the tests. The tenants exist. */
export async function sharedEngine (
  t: Test,
  tenants: readonly string[] = [],
  tables: EngineOptions['tables'] = {}
): Promise<(app: FastifyInstance) => void> {
  const engine = await createEngine({ ...await postgresSection(t), tables, migrate: 'auto' })
  t.teardown(() => engine.close())
  for (const id of tenants) await engine.kysely.insertInto('tenantry.tenants').values({ id, name: id }).execute()
  const shared = fp(async (app) => {
    app.decorate('engine', engine)
    app.decorate('db', engine.kysely)
    app.decorate('events', engine.events)
  }, { name: 'tenantry-database' })
  return (app) => {
    app.register(shared)
  }
}
