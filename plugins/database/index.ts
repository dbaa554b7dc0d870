/**
 * The database: `app.db` for the server's own tables, `app.engine` for compiled queries, and `app.events` for changes of
 * tenants' data on all servers. It connects while it registers: an app whose database is down does not start.
 */
import type {} from '../stop/index.js'
import type { Kysely } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import type { Events } from '../../lib/database/events.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { Embedded, Postgres } from '../../lib/config/schema/database.js'
import { createEngine, type EngineOptions } from '../../lib/database/index.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { watchRoutes } from '../../lib/plugin/guards.js'
import { oneOf, record, section } from '../../lib/plugin/options.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Typed access to the server's own tables, in the schema `tenantry`. */
    db: Kysely<SystemTables>
    engine: Engine
    /** Writes rows that tenants own, and notifies other servers. */
    events: Events
  }
}

/** The document's `database`, `tables` and `migrate`. */
export type DatabaseOptions = Omit<EngineOptions, 'log'>

export default definePlugin<DatabaseOptions>({
  name: 'database',
  after: ['stop'],
  options: { provider: oneOf('postgres', 'embedded'), postgres: section(Postgres('PostgreSQL.')), embedded: section(Embedded), tables: record, roleTables: record, vectorTable: record, watched: record, migrate: oneOf('auto', 'manual') },
  async setup (app, options) {
    watchRoutes(app)
    const engine = await createEngine({ ...options, log: app.log })
    app.decorate('engine', engine)
    app.decorate('db', engine.kysely)
    app.decorate('events', engine.events)
    app.addHook('onClose', () => engine.close())
    // Statements that still wait then fail, so that they do not delay the stop.
    if (app.hasDecorator('stopping')) app.stopping.overdue.addEventListener('abort', () => { engine.close().catch((err: unknown) => app.log.warn({ err }, 'the database could not be closed in order')) })
    await engine.listen()
    return undefined
  }
})
