/** Whether the database has what routes need; looks again once a second while it has not. */
import type { FastifyBaseLogger } from 'fastify'
import type { Engine } from '../../lib/database/engine.js'
import { failure, type TenantryError } from '../../lib/errors.js'

const recheckAfter = 1000 // ms between looks at a database whose migration is pending, or that a route does not fit
const retryAfter = { 'retry-after': String(recheckAfter / 1000) }

export interface Readiness {
  /** Answers a request: at once on a migrated database; else rejects with `migrationPending`, unless it was migrated meanwhile. */
  whenMigrated<Body>(answer: () => Promise<Body>): Promise<Body>
  /** The error of a route that the tables no longer fit; they are read again, since no statement of the route runs that would tell. */
  schemaChanged(): TenantryError
}

const made = new WeakMap<Engine, Promise<Readiness>>()

/** The one readiness of an engine: all routes on it look at the same. */
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

  async function lookAgain (): Promise<void> {
    if (Date.now() - lookedAt < recheckAfter) throw failure('migrationPending', { headers: retryAfter })
    lookedAt = Date.now()
    if ((await engine.pendingMigrations()).length > 0) throw failure('migrationPending', { headers: retryAfter })
    await engine.refresh()
    pending = false
  }

  return {
    whenMigrated: (answer) => pending ? lookAgain().then(answer) : answer(),
    schemaChanged () {
      if (Date.now() - refreshedAt >= recheckAfter) {
        refreshedAt = Date.now()
        engine.refresh().catch((err: unknown) => log.warn({ err }, 'the tables of the database could not be read again'))
      }
      return failure('schemaChanged', { headers: retryAfter })
    }
  }
}
