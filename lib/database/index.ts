/** Opens a database. */
import { platformRef } from '../identity/tenant-ref.js'
import type { Settable } from '../schema/annotations.js'
import type { Embedded } from '../schema/database.js'
import { type DeclaredTables, type RoleTables, wantedTables } from './declared-tables.js'
import type { VectorTable } from './document-tables.js'
import { connectEmbedded } from './embedded.js'
import type { Engine, EngineLog } from './engine.js'
import { translate } from './failures.js'
import type { WatchedTables } from './migrations/change-triggers.js'
import { createPoolEngine } from './pool-engine.js'
import { connectPostgres, type PostgresOptions, refuseTransactionPooler } from './postgres.js'

export interface EngineOptions {
  /** Default: `postgres` with the section `postgres`, else `embedded`. */
  readonly provider?: 'postgres' | 'embedded' | undefined
  /** Required for the provider `postgres`, with `connectionString`. */
  readonly postgres?: Settable<PostgresOptions> | undefined
  readonly embedded?: Embedded | undefined
  /** The application tables that the document declares. Default: none. */
  readonly tables?: DeclaredTables | undefined
  /** The tables of the platform's roles, for the plugin rbac. Default: none. */
  readonly roleTables?: RoleTables | undefined
  /** The table of vectors in pgvector, for the plugin embeddings. Default: none. */
  readonly vectorTable?: VectorTable | undefined
  /** The tables whose changes are recorded, for the plugin realtime. Default: none. */
  readonly watched?: WatchedTables | undefined
  /** `auto` applies missing changes at start, `manual` leaves them to a command. Default: `auto` for the embedded engine, else `manual`. */
  readonly migrate?: 'auto' | 'manual' | undefined
  readonly log?: EngineLog | undefined
}

/**
 * Connects, reads the catalogue and (with `migrate: 'auto'`) applies missing changes. Rejects with `databaseUnavailable` if it cannot
 * connect. It also rejects if the database is newer than this version, if a pooler would lose the settings of its sessions, or if its role
 * bypasses the policies of `rowLevelSecurity`. On the embedded engine, it rejects if another process uses the folder.
 */
export async function createEngine (options: EngineOptions): Promise<Engine> {
  const { tables = {}, log = { info () {}, warn () {} } } = options
  const provider = providerOf(options)
  const migrate = options.migrate ?? (provider === 'embedded' ? 'auto' : 'manual')
  const schema = provider === 'postgres' ? options.postgres?.schema ?? 'public' : 'public'
  if (/^(tenantry|information_schema|pg_.*)$/.test(schema)) {
    throw new Error(`the schema "${schema}" is reserved: choose another postgres.schema for the application's tables`)
  }
  const connections = provider === 'postgres' ? connectPostgres(requirePostgres(options)) : await connectEmbedded(options.embedded, log)
  const engine = createPoolEngine(connections, {
    schema,
    wanted: wantedTables(tables),
    roleTables: options.roleTables ?? null,
    vectorTable: options.vectorTable ?? null,
    watched: options.watched
  }, log)
  try {
    if (provider === 'postgres' && connections.settings.prepared) await refuseTransactionPooler(connections)
    if (connections.settings.rowLevelSecurity) await refuseBypass(engine)
    if (migrate === 'auto') {
      await apply(engine, log)
    } else {
      await report(engine, log)
      await engine.refresh()
    }
    return engine
  } catch (error) {
    await engine.close()
    throw translate(error)
  }
}

function providerOf ({ provider, postgres, embedded }: EngineOptions): 'postgres' | 'embedded' {
  if (provider === undefined) {
    if (postgres !== undefined && embedded !== undefined) {
      throw new Error('the database has the sections "postgres" and "embedded": set one of them as `provider`')
    }
    return postgres === undefined ? 'embedded' : 'postgres'
  }
  if (provider === 'embedded' && postgres !== undefined) {
    throw new Error(
      'the database provider is "embedded", but there is also a section "postgres": remove the section, or set the provider "postgres"'
    )
  }
  return provider
}

/** Also reads the tables. */
async function apply (engine: Engine, log: EngineLog): Promise<void> {
  const migrations = await engine.migration.apply(undefined, ({ state, ...progress }) => {
    if (state === 'queued') log.info(progress, 'another server migrates the database: waiting for it')
    else if (state === 'waiting') log.warn(progress, 'the migration waits for a lock that another session holds')
    else if (state === 'started' && progress.of > 1) log.info(progress, 'a step of a migration begins')
  })
  if (migrations.length > 0) log.info({ migrations }, 'the database was migrated')
}

async function report (engine: Engine, log: EngineLog): Promise<void> {
  const migrations = await engine.pendingMigrations()
  if (migrations.length > 0) log.warn({ migrations }, 'the database is not migrated: run "tenantry migrate"')
}

/** A role that bypasses policies would see the rows of all tenants, and no statement would fail. */
async function refuseBypass (engine: Engine): Promise<void> {
  const [role] = await engine.transaction({ tenant: platformRef }, (session) =>
    session.rows<{ name: string, bypasses: boolean }>({
      text: 'select rolname as name, rolsuper or rolbypassrls as bypasses from pg_roles where rolname = current_user'
    }))
  if (role?.bypasses !== false) {
    throw new Error(
      `postgres.rowLevelSecurity is on, but the database role "${role?.name}" bypasses row-level security: connect with a role without SUPERUSER and BYPASSRLS`
    )
  }
}

function requirePostgres ({ postgres }: EngineOptions): PostgresOptions {
  const { connectionString } = postgres ?? {}
  if (!connectionString) {
    throw new Error(
      'the database provider "postgres" needs the section "postgres" with a connectionString, such as postgres://user@host/name'
    )
  }
  return { ...postgres, connectionString }
}
