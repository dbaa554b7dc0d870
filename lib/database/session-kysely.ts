/** kysely on the transaction of a session, so that stores of system tables can write in the transaction of a route. */
import type { SystemTables } from './system-tables.js'
import type { Session } from './engine.js'
import {
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
  type Transaction
} from 'kysely'

/** Runs the work in the session's transaction. The work must neither commit nor roll back. */
export async function withinSession<T> (session: Session, work: (transaction: Transaction<SystemTables>) => Promise<T>): Promise<T> {
  const db = new Kysely<SystemTables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new SessionDriver(session),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler()
    }
  })
  return await db.transaction().execute(work)
}

/** The session begins and ends the transaction itself. */
class SessionDriver implements Driver {
  readonly #connection: DatabaseConnection

  constructor (session: Session) {
    this.#connection = new SessionConnection(session)
  }

  async acquireConnection (): Promise<DatabaseConnection> {
    return this.#connection
  }

  async releaseConnection (): Promise<void> {}
  async beginTransaction (): Promise<void> {}
  async commitTransaction (): Promise<void> {}
  async rollbackTransaction (): Promise<void> {}
  async init (): Promise<void> {}
  async destroy (): Promise<void> {}
}

class SessionConnection implements DatabaseConnection {
  readonly #session: Session

  constructor (session: Session) {
    this.#session = session
  }

  async executeQuery<Row> ({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const rows = await this.#session.rows({ text: sql }, parameters)
    // kysely wrote the statement and knows the type of its rows.
    return { rows: rows as Row[] }
  }

  async * streamQuery<Row> (): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error("streaming of a session's rows is not supported")
  }
}
