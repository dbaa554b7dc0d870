/** Whether the database has the tables that routes need. While it does not, checks again at most once a second. */
import type { FastifyBaseLogger } from 'fastify'
import type { Engine } from '../../lib/database/engine.js'
import { failure, type TenantryError } from '../../lib/errors.js'

const recheckAfter = 1000 // ms between checks of a database with pending migrations, or with tables that a route does not fit
const retryAfter = { 'retry-after': String(recheckAfter / 1000) }

export interface Readiness {
  /**
   * Answers a request at once if the database is migrated. Otherwise checks again, and rejects with `migrationPending` if
   * migrations are still pending.
   */
  whenMigrated<Body>(handle: () => Promise<Body>): Promise<Body>
  /**
   * The error for a route that no longer fits the tables. Also rereads the tables: such a route runs no statement whose failure
   * would show a later change.
   */
  schemaChanged(): TenantryError
}

const made = new WeakMap<Engine, Promise<Readiness>>()

/** The readiness that all routes on an engine share. */
export function readinessOf (engine: Engine, log: FastifyBaseLogger): Promise<Readiness> {
  const known = made.get(engine)
  if (known !== undefined) return known
  const readiness = createReadiness(engine, log)
  made.set(engine, readiness)
  return readiness
}

async function createReadiness (engine: Engine, log: FastifyBaseLogger): Promise<Readiness> {
  let pending = (await engine.pendingMigrations()).length > 0
  let lookedAt = Date.now()
  let refreshedAt = 0

  async function recheck (): Promise<void> {
    if (Date.now() - lookedAt < recheckAfter) throw failure('migrationPending', { headers: retryAfter })
    lookedAt = Date.now()
    if ((await engine.pendingMigrations()).length > 0) throw failure('migrationPending', { headers: retryAfter })
    await engine.refresh()
    pending = false
  }

  return {
    whenMigrated: (handle) => pending ? recheck().then(handle) : handle(),
    schemaChanged () {
      if (Date.now() - refreshedAt >= recheckAfter) {
        refreshedAt = Date.now()
        engine.refresh().catch((err: unknown) => log.warn({ err }, 'the schema of the database could not be read again'))
      }
      return failure('schemaChanged', { headers: retryAfter })
    }
  }
}
