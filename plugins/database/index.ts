/**
 * The database: `app.db` for the server's own tables, `app.engine` for compiled queries and `app.events` for what changes
 * in what tenants own, on this server and on others. A service plugin (fp).
 * It connects while it registers: an app whose database is down does not start.
 */
import type {} from '../stop/index.js'
import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import type { Events } from '../../lib/database/events.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import fp from 'fastify-plugin'
import { createEngine, type EngineOptions } from '../../lib/database/index.js'
import { watchRoutes } from '../../lib/plugin/guards.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Typed access to the server's own tables, in the schema `tenantry`. */
    db: Kysely<SystemTables>
    engine: Engine
    /** Writes what tenants own, and tells of it. */
    events: Events
  }
}

/** The document's `database`, `tables` and `migrate`. */
export type DatabaseOptions = Omit<EngineOptions, 'log'>

export async function database (app: FastifyInstance, options: DatabaseOptions): Promise<void> {
  watchRoutes(app)
  const engine = await createEngine({ ...options, log: app.log })
  app.decorate('engine', engine)
  app.decorate('db', engine.kysely)
  app.decorate('events', engine.events)
  app.addHook('onClose', () => engine.close())
  // Whoever waits for a statement until then gets an error, and nobody holds the stop up.
  if (app.hasDecorator('stopping')) app.stopping.overdue.addEventListener('abort', () => { engine.close().catch((err: unknown) => app.log.warn({ err }, 'the database could not be closed in order')) })
  await engine.listen()
}

export default fp(database, { name: 'tenantry-database', fastify: '5.x' })
