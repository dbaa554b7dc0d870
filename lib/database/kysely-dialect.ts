/** kysely on the engine: on its pool, and on the transaction of a session. The same sessions, the same errors. */
import {
  type CompiledQuery, type DatabaseConnection, type Dialect,
  type Driver, DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, type QueryResult,
  type TransactionSettings
} from 'kysely'
import type { PoolClient } from 'pg'
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'
import type { Session } from './engine.js'
import { isSessionLost } from './failures.js'
import { runRows, type StatementParts, stepOf } from './session.js'
import type { SystemTables, SystemTransaction } from './system-tables.js'

/** The statements wait for a connection in the turn of the tenant. */
export function createDialect (parts: StatementParts, tenant: TenantRef): Dialect {
  return dialectOf(() => new PoolDriver(parts, tenant))
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
  constructor (private readonly parts: StatementParts, private readonly tenant: TenantRef) {}

  async acquireConnection (): Promise<PoolConnection> {
    return new PoolConnection(await this.parts.access.connected({ tenant: this.tenant }), this.parts)
  }

  async releaseConnection (connection: PoolConnection): Promise<void> {
    this.parts.access.release(connection.client, connection.isLost)
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

  readonly streamQuery = refuseStream

  constructor (readonly client: PoolClient, private readonly parts: StatementParts) {}

  async begin (text: string): Promise<void> {
    await this.run([{ text, values: [] }, ...this.parts.preludes(serverRef)])
    this.inTransaction = true
  }

  async end (text: string): Promise<void> {
    this.inTransaction = false
    await this.run([{ text, values: [] }])
  }

  async executeQuery<R> ({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const step = stepOf({ text: sql }, parameters, this.parts.settings)
    const { rows, tag } = await this.run(this.inTransaction ? [step] : [...this.parts.preludes(serverRef), step])
    const affected = /^(?:INSERT 0|UPDATE|DELETE|MERGE) (\d+)$/.exec(tag)?.[1]
    // kysely wrote the statement and knows the type of its rows.
    return { rows: rows as R[], ...affected !== undefined && { numAffectedRows: BigInt(affected) } }
  }

  private run (steps: Parameters<typeof runRows>[1]): ReturnType<typeof runRows> {
    return runRows(this.client, steps, this.parts.settings.silenceMs).catch((error: unknown) => {
      this.isLost ||= isSessionLost(error)
      throw this.parts.translate(error)
    })
  }
}

// kysely on the transaction of a session, so that stores of system tables can write in the transaction of a route.

/** Runs the work in the session's transaction. The work must neither commit nor roll back. */
export async function withinSession<T> (session: Session, work: (transaction: SystemTransaction) => Promise<T>): Promise<T> {
  const db = new Kysely<SystemTables>({ dialect: dialectOf(() => new SessionDriver(session)) })
  return await db.transaction().execute(work)
}

/** The session begins and ends the transaction itself. */
class SessionDriver extends DummyDriver {
  constructor (private readonly session: Session) {
    super()
  }

  override async acquireConnection (): Promise<DatabaseConnection> {
    const { session } = this
    return {
      async executeQuery<Row> ({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
        const rows = await session.rows({ text: sql }, parameters)
        // kysely wrote the statement and knows the type of its rows.
        return { rows: rows as Row[] }
      },
      streamQuery: refuseStream
    }
  }
}

async function * refuseStream (): AsyncIterableIterator<never> {
  throw new Error('streaming of rows is not supported: read them in pages')
}
