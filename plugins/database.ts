/**
 * The database: `app.db` for the server's own tables and `app.engine` for compiled queries. A service plugin (fp).
 * It connects while it registers: an app whose database is down does not start.
 */
import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import type { Engine } from '../lib/database/engine.js'
import type { SystemTables } from '../lib/database/system-tables.js'
import fp from 'fastify-plugin'
import { createEngine, type EngineOptions } from '../lib/database/index.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Typed access to the server's own tables, in the schema `tenantry`. */
    db: Kysely<SystemTables>
    engine: Engine
  }
}

/** The document's `database`, `tables` and `migrate`. */
export type DatabaseOptions = Omit<EngineOptions, 'log'>

export async function database (app: FastifyInstance, options: DatabaseOptions): Promise<void> {
  const engine = await createEngine({ ...options, log: app.log })
  app.decorate('engine', engine)
  app.decorate('db', engine.kysely)
  app.addHook('onClose', () => engine.close())
}

export default fp(database, { name: 'tenantry-database', fastify: '5.x' })
