/**
 * The database: `app.db` for the server's own tables, `app.engine` for compiled queries, and `app.events` for changes of tenants' data on
 * all servers. It connects while it registers: an app without its database does not start.
 */
import type { Kysely } from 'kysely'
import { Type } from 'typebox'
import type { Engine } from '../../lib/database/engine.js'
import type { Events } from '../../lib/database/events.js'
import { createEngine, type EngineOptions } from '../../lib/database/index.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { maxResultBytes } from '../../lib/expressions/result.js'
import { openFirestore } from '../../lib/firestore/open.js'
import type { DocumentStore, FirestoreOptions } from '../../lib/firestore/types.js'
import { watchRoutes } from '../../lib/http/guards.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { oneOf, section } from '../../lib/plugin/options.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { Embedded, Firebase, Postgres } from '../../lib/schema/database.js'
import { Realtime } from '../../lib/schema/realtime.js'
import { Tables } from '../../lib/schema/table.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Typed access to the server's own tables, in the schema `tenantry`. */
    db: Kysely<SystemTables>
    engine: Engine
    /** Firestore, for documents of `firebaseQueries`; null without it. */
    firestore: DocumentStore | null
    /** Writes rows of tenants, and notifies other servers. */
    events: Events
  }
}

/** The document's `database`, `tables` and `migrate`. */
export interface DatabaseOptions extends Omit<EngineOptions, 'log'> {
  /** Firestore, for documents of `firebaseQueries`; the tables stay in the SQL database. Default: none. */
  readonly firebase?: FirestoreOptions | undefined
}

const TableName = Type.String({ minLength: 1, maxLength: 63 })
const RoleTables = ClosedObject({ roles: TableName, permissions: TableName, userRoles: TableName })
const FirestoreSection = ClosedObject({
  ...Firebase.properties,
  isDefault: Optional.Boolean('The default of queries without a store. Default: false.'),
  timeoutMs: Optional.Integer('The time limit of an operation in milliseconds. Default: 10,000.', { minimum: 1 })
})
const VectorTable = ClosedObject({ dimensions: Type.Integer({ minimum: 1, maximum: 2000 }) })

export default definePlugin<DatabaseOptions>({
  name: 'database',
  after: ['stop'],
  options: {
    provider: oneOf('postgres', 'embedded'),
    postgres: section(Postgres('PostgreSQL.')),
    embedded: section(Embedded),
    tables: section(Tables),
    roleTables: section(RoleTables),
    vectorTable: section(VectorTable),
    watched: section(Realtime.properties.tables),
    migrate: oneOf('auto', 'manual'),
    firebase: section(FirestoreSection)
  },
  async setup (app, { firebase, ...options }) {
    watchRoutes(app)
    // Loads Firestore first, so that a missing package leaves no open connection.
    const firestore = firebase === undefined ? null : await openFirestore({ ...firebase, maxResultBytes })
    const engine = await createEngine({ ...options, log: app.log })
    app.decorate('engine', engine)
    app.decorate('firestore', firestore)
    app.decorate('db', engine.kysely)
    app.decorate('events', engine.events)
    app.addHook('onClose', async () => {
      await Promise.all([engine.close(), firestore?.close()])
    })
    // Waiting statements then fail, so that they do not delay the stop.
    optional(app, 'stopping')()?.overdue.addEventListener('abort', () => {
      engine.close().catch((err: unknown) => app.log.warn({ err }, 'the database could not be closed in order'))
    })
    await engine.listen()
  }
})
