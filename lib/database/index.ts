/** Opens a database. */
import type { Engine } from './engine.js'
import type { DeclaredTables } from './declared-tables.js'
import { connectEmbedded, type EmbeddedOptions } from './embedded.js'
import { connectPostgres, type PostgresOptions } from './postgres.js'
import { createPoolEngine } from './engine-on-pool.js'

/** What of a logger the engine uses. */
export interface EngineLog {
  info (object: object, message: string): void
  warn (object: object, message: string): void
}

export interface EngineOptions {
  readonly provider: 'postgres' | 'embedded'
  /** Required for the provider `postgres`. */
  readonly postgres?: PostgresOptions | undefined
  readonly embedded?: EmbeddedOptions | undefined
  /** The application tables that the document declares. Default: none. */
  readonly tables?: DeclaredTables | undefined
  /** `auto` applies what is lacking at start; `manual` leaves it to `tenantry migrate` and `POST /migration/apply`. Default: `auto` for the embedded engine, else `manual`. */
  readonly migrate?: 'auto' | 'manual' | undefined
  readonly log?: EngineLog | undefined
}

/**
 * Connects, reads the catalogue and (with `migrate: 'auto'`) applies what the database lacks. Rejects with
 * `databaseUnavailable` where there is no database, and with an error that says so where the database is newer than
 * this version, where its role bypasses the policies that `rowLevelSecurity` counts on, and where another process has
 * the embedded folder.
 */
export async function createEngine (options: EngineOptions): Promise<Engine> {
  const { tables = {}, log } = options
  const connections = options.provider === 'postgres' ? connectPostgres(requirePostgres(options)) : await connectEmbedded(options.embedded)
  const engine = createPoolEngine(connections, {
    schema: options.postgres?.schema ?? 'public',
    declared: tables,
    warn: (err, message) => log?.warn({ err }, message),
    pendingMigrations: async () => []
  })
  try {
    await engine.refresh()
    return engine
  } catch (error) {
    await engine.close()
    throw error
  }
}

function requirePostgres ({ postgres }: EngineOptions): PostgresOptions {
  if (postgres === undefined) throw new Error('the database provider "postgres" needs the section "postgres" with its connectionString')
  return postgres
}
