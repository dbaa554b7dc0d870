/** Applies what a database lacks. */
import type { Actor } from '../../audit.js'
import type { Session } from '../engine.js'
import { auditStatement } from '../../audit.js'
import { failure, TenantryError } from '../../errors.js'
import { fullTextOf, isOutage } from '../failures.js'
import type { PlannedMigration } from './migration.js'
import { planNext, recordSql, type PlanOptions } from './plan.js'

/** The key of the advisory lock: any number that no other program is likely to choose. */
const lockKey = 7_236_815_402

const maxLockTimeoutMs = 10_000 // for a table that a long statement holds: the migration fails rather than stop all requests behind it

export interface ApplyOptions extends PlanOptions {
  /** How long a statement of a request may run: a lock that is held for longer is no request's. */
  readonly statementTimeoutMs: number
  /** Who asks for it, for the audit log; undefined where nobody does. */
  readonly actor?: Actor | undefined
}

/** Runs work in one transaction of the server's own, which sees the rows of every tenant. */
export type RunTransaction = <T> (work: (session: Session) => Promise<T>) => Promise<T>

/**
 * Applies each migration in a transaction of its own, under a lock that all servers of this database share, planning anew
 * each time: servers that start together apply each one once. Returns the names in order; none where nothing was lacking.
 * A migration that fails leaves those before it, and rejects with what the database said about it.
 */
export async function applyMigration (transaction: RunTransaction, options: ApplyOptions): Promise<string[]> {
  const applied: PlannedMigration[] = []
  for (;;) {
    const migration = await transaction((session) => applyNext(session, options))
    if (migration === null) return applied.map(({ name }) => name)
    if (applied.some(({ statements }) => statements.join() === migration.statements.join())) throw new Error(`the migration ${migration.name} was applied and is still lacking`)
    applied.push(migration)
  }
}

async function applyNext (session: Session, options: ApplyOptions): Promise<PlannedMigration | null> {
  await session.rows({ text: "select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)" })
  await session.rows({ text: 'select pg_advisory_xact_lock($1)' }, [lockKey])
  const migration = await planNext(session, options)
  if (migration === null) return null
  await session.rows({ text: "select set_config('lock_timeout', $1, true)" }, [String(Math.min(options.statementTimeoutMs, maxLockTimeoutMs))])
  for (const text of [...migration.statements, recordSql(migration)]) {
    await session.rows({ text }).catch((error: unknown) => { throw refused(migration, error) })
  }
  if (options.actor !== undefined) await audit(session, migration, options.actor)
  return migration
}

/** Before the log itself is made, the record of the migration is all there is. */
async function audit (session: Session, { name }: PlannedMigration, actor: Actor): Promise<void> {
  const [log] = await session.rows<{ made: boolean }>({ text: "select to_regclass('tenantry.audit_log') is not null as made" })
  if (log?.made !== true) return
  const { text, values } = auditStatement([{ tenant: '', action: 'migration.apply', actor, target: name, at: new Date() }])
  await session.rows({ text }, values)
}

/** What the database says about a migration names tables, columns and types; it is for who runs the platform. */
function refused ({ name }: PlannedMigration, error: unknown): unknown {
  if (isOutage(error)) return error
  const reason = error instanceof TenantryError ? error.cause : error
  const text = reason instanceof Error ? fullTextOf(reason) : undefined
  if (text === undefined) return error
  return failure('conflict', { message: `The migration ${name} cannot be applied: ${text}`, cause: reason })
}
