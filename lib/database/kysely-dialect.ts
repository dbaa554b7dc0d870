/** kysely on the engine: on its pool, and on the transaction of a session. The same sessions, the same errors. */
import {
  type CompiledQuery, type DatabaseConnection, type Dialect,
  type Driver, DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, type QueryResult, type Transaction,
  type TransactionSettings
} from 'kysely'
import type { PoolClient } from 'pg'
import { serverRef } from '../identity/tenant-ref.js'
import type { SessionSettings } from './connections.js'
import type { Session } from './engine.js'
import { isSessionLost } from './failures.js'
import { type Preludes, runRows, stepOf } from './session.js'
import type { SystemTables } from './system-tables.js'

export interface DialectOptions {
  /** A connection for exclusive use. */
  readonly acquire: () => Promise<PoolClient>
  readonly release: (client: PoolClient, broken: boolean) => void
  readonly settings: SessionSettings
  readonly preludes: Preludes
  readonly translate: (error: unknown) => unknown
}

export function createDialect (options: DialectOptions): Dialect {
  return dialectOf(() => new PoolDriver(options))
}

function dialectOf (createDriver: () => Driver): Dialect {
  return {
    createAdapter: () => new PostgresAdapter(),
    createDriver,
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler()
  }
}

class PoolDriver implements Driver {
  constructor (private readonly options: DialectOptions) {}

  async acquireConnection (): Promise<PoolConnection> {
    return new PoolConnection(await this.options.acquire(), this.options)
  }

  async releaseConnection (connection: PoolConnection): Promise<void> {
    this.options.release(connection.client, connection.isLost)
  }

  async beginTransaction (connection: PoolConnection, { isolationLevel, accessMode }: TransactionSettings): Promise<void> {
    const modes = [isolationLevel && `isolation level ${isolationLevel}`, accessMode].filter(Boolean).join(', ')
    await connection.begin(`begin ${modes}`)
  }

  async commitTransaction (connection: PoolConnection): Promise<void> {
    await connection.end('commit')
  }

  async rollbackTransaction (connection: PoolConnection): Promise<void> {
    await connection.end('rollback')
  }

  async init (): Promise<void> {}
  async destroy (): Promise<void> {}
}

class PoolConnection implements DatabaseConnection {
  private inTransaction = false
  /** Its session is unusable. */
  isLost = false

  constructor (readonly client: PoolClient, private readonly options: DialectOptions) {}

  async begin (text: string): Promise<void> {
    await this.run([{ text, values: [] }, ...this.options.preludes(serverRef), { text: 'select', values: [] }])
    this.inTransaction = true
  }

  async end (text: string): Promise<void> {
    this.inTransaction = false
    await this.run([{ text, values: [] }])
  }

  async executeQuery<R> ({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const step = stepOf({ text: sql }, parameters, this.options.settings)
    const { rows, tag } = await this.run(this.inTransaction ? [step] : [...this.options.preludes(serverRef), step])
    const affected = /^(?:INSERT 0|UPDATE|DELETE|MERGE) (\d+)$/.exec(tag)?.[1]
    // kysely wrote the statement and knows the type of its rows.
    return { rows: rows as R[], ...affected !== undefined && { numAffectedRows: BigInt(affected) } }
  }

  async * streamQuery<R> (): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('streaming of rows is not supported: read them in pages')
  }

  private run (steps: Parameters<typeof runRows>[1]): ReturnType<typeof runRows> {
    return runRows(this.client, steps, this.options.settings.silenceMs).catch((error: unknown) => {
      this.isLost ||= isSessionLost(error)
      throw this.options.translate(error)
    })
  }
}

// kysely on the transaction of a session, so that stores of system tables can write in the transaction of a route.

/** Runs the work in the session's transaction. The work must neither commit nor roll back. */
export async function withinSession<T> (session: Session, work: (transaction: Transaction<SystemTables>) => Promise<T>): Promise<T> {
  const db = new Kysely<SystemTables>({ dialect: dialectOf(() => new SessionDriver(session)) })
  return await db.transaction().execute(work)
}

/** The session begins and ends the transaction itself. */
class SessionDriver extends DummyDriver {
  constructor (private readonly session: Session) {
    super()
  }

  override async acquireConnection (): Promise<DatabaseConnection> {
    return new SessionConnection(this.session)
  }
}

class SessionConnection implements DatabaseConnection {
  constructor (private readonly session: Session) {}

  async executeQuery<Row> ({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const rows = await this.session.rows({ text: sql }, parameters)
    // kysely wrote the statement and knows the type of its rows.
    return { rows: rows as Row[] }
  }

  async * streamQuery<Row> (): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error("streaming of a session's rows is not supported")
  }
}
