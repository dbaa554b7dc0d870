/** Applies the missing migrations of a database. */
import { setTimeout as sleep } from 'node:timers/promises'
import { failure, isFailure, TenantryError } from '../../errors.js'
import { platformRef } from '../../identity/tenant-ref.js'
import { type Actor, auditStatement } from '../audit.js'
import type { Session } from '../engine.js'
import { fullTextOf, isOutage, sqlStateOf } from '../failures.js'
import { hasFilled } from './fill.js'
import type { MigrationPlan, MigrationProgress, PlannedMigration } from './migration.js'
import { planNext, type PlanOptions } from './plan.js'
import { lockedTables, madeBy, type MigrationStep, settingsOf, statementsOf } from './steps.js'

const firstPauseMs = 100 // ms between attempts to get a lock; requests that queued behind the last attempt go first
const longestPauseMs = 1000

export interface ApplyOptions extends PlanOptions {
  /** The longest wait of a step for locks of other sessions, over all its attempts, in milliseconds. */
  readonly patienceMs: number
  /** The caller who requested it, for the audit log; undefined for a start of the server. */
  readonly actor?: Actor | undefined
  readonly onProgress?: ((progress: MigrationProgress) => void) | undefined
}

interface MigrationStatement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** A separate session for migrations. It sees the rows of every tenant. */
export interface MigrationSession {
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  /** Runs the statements in one transaction with these settings, in one round trip: no lock is held while a statement is in transit. */
  batch(settings: Readonly<Record<string, string>>, statements: readonly MigrationStatement[]): Promise<void>
  /** Runs a statement that PostgreSQL rejects in a transaction. */
  alone(text: string): Promise<void>
}

export interface ApplyResult extends Pick<MigrationPlan, 'warnings'> {
  /** In order; empty if nothing was missing. */
  readonly names: string[]
}

/** Applies each migration, planning again each time. A failed one keeps its finished steps, and the next attempt continues behind them. */
export async function applyMigrations (session: MigrationSession, options: ApplyOptions): Promise<ApplyResult> {
  const applied: PlannedMigration[] = []
  const made = new Set<string>()
  for (;;) {
    const { migration, warnings } = await session.transaction((transaction) => planNext(transaction, { ...options, made }))
    if (migration === undefined) {
      return { names: applied.map(({ name }) => name), warnings: [...applied.flatMap(({ notes = [] }) => notes), ...warnings] }
    }
    const work = workOf(migration)
    const repeated = applied.some((earlier) => workOf(earlier) === work)
    if (repeated) throw new Error(`the migration ${migration.name} was applied, but the database still lacks it`)
    for (const [index, step] of migration.steps.entries()) {
      const progress = { migration: migration.name, step: index + 1, of: migration.steps.length, table: shown(step) }
      const report = (state: MigrationProgress['state']) => options.onProgress?.({ ...progress, state })
      report('started')
      await withLockRetries(session, migration, step, report, options)
      report('done')
    }
    for (const statement of migration.steps.flatMap(({ statements }) => statements)) made.add(madeBy(statement) ?? '')
    applied.push(migration)
  }
}

const recordStatement = /^(?:insert into|delete from) tenantry\.migrations\b/

/** The work of the migration, without its number and its records, which differ each time. */
function workOf ({ name, steps }: PlannedMigration): string {
  const statements = steps.flatMap(({ statements }) => statements).filter((text) => !recordStatement.test(text))
  return JSON.stringify([name.replace(/^\d+_/, ''), ...statements])
}

/** Tries the step again while other sessions hold the locks that it needs. */
async function withLockRetries (
  session: MigrationSession,
  migration: PlannedMigration,
  step: MigrationStep,
  report: (state: 'waiting') => void,
  options: ApplyOptions
): Promise<void> {
  const isLast = step === migration.steps.at(-1)
  let end = performance.now() + options.patienceMs
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    try {
      if (step.kind !== 'alone') {
        const { actor } = options
        const record = isLast && actor !== undefined
          ? await session.transaction((transaction) => auditOf(transaction, migration, actor))
          : []
        return await session.batch(settingsOf(step), [...statementsOf(step).map((text) => ({ text, values: [] })), ...record])
      }
      for (const text of step.statements) await session.alone(text)
      return
    } catch (error) {
      // The step's error is reported, even if `undo` fails too. An index that cannot be removed here is removed before the next attempt.
      if (step.undo !== undefined && !isFailure(error, 'databaseUnavailable')) await session.alone(step.undo).catch(() => {})
      if (!isContended(error, step)) throw refused(migration, step, error)
      // The time in which it has filled rows, which it keeps, was not a wait.
      if (hasFilled(reportedBy(error))) end = performance.now() + options.patienceMs
      if (performance.now() + pauseMs > end) throw await overdue(session, migration, step, options.patienceMs, error)
      report('waiting')
      await sleep(pauseMs * (0.75 + Math.random() / 2))
    }
  }
}

/** The audit log's entry. Until the log exists, the record of the migration is the only trace. */
async function auditOf (session: Session, { name, steps }: PlannedMigration, actor: Actor): Promise<MigrationStatement[]> {
  const [log] = await session.rows<{ made: boolean }>({ text: "select to_regclass('tenantry.audit_log') is not null as made" })
  const isMade = log?.made === true ||
    steps.some(({ statements }) => statements.some((statement) => madeBy(statement) === 'tenantry.audit_log'))
  return isMade ? [auditStatement([{ tenant: platformRef, action: 'migration.apply', actor, target: name, at: new Date() }])] : []
}

/** A lock of another session, or a deadlock with it. Only a `change` has its own time limit. */
function isContended (error: unknown, { kind }: MigrationStep): boolean {
  const state = sqlStateOf(reportedBy(error))
  return state === '55P03' || state === '40P01' || state === '40001' || (state === '57014' && kind === 'change')
}

/** The error that the database itself reported. */
function reportedBy (error: unknown): unknown {
  return isOutage(error) ? error.cause : error
}

async function overdue (
  session: MigrationSession,
  { name }: PlannedMigration,
  step: MigrationStep,
  patienceMs: number,
  cause: unknown
): Promise<TenantryError> {
  const tables = lockedTables(step)
  const holders = tables.length === 0 ? '' : await session.transaction((transaction) => holdersOf(transaction, tables)).catch(() => '')
  const place = tables.length === 0 ? 'its tables' : `the table ${tables.map(unquoted).join(' or ')}`
  const who = holders === '' ? 'another session holds it' : `held by ${holders}`
  return failure('databaseBusy', {
    message: `The migration ${name} did not get a lock of ${place} within ${
      patienceMs / 1000
    } s (${who}): end the transaction that holds it, then apply again, which continues where this stopped`,
    headers: { 'retry-after': '1' },
    cause
  })
}

const maxHolders = 5 // in a message

async function holdersOf (session: Session, tables: readonly string[]): Promise<string> {
  const rows = await session.rows<{ holder: string }>({
    text:
      `select distinct 'process ' || a.pid || coalesce(' of ' || nullif(a.application_name, ''), '') || coalesce(', ' || a.state, '') as holder
      from pg_locks l join pg_stat_activity a using (pid) where l.relation in (select to_regclass(name) from unnest($1::text[]) name)
        and l.granted and a.pid <> pg_backend_pid() order by 1 limit ${maxHolders}`
  }, [tables])
  return rows.map(({ holder }) => holder).join('; ')
}

/** The table's name in messages. */
function shown ({ table }: MigrationStep): string | undefined {
  return table === undefined ? undefined : unquoted(table)
}

function unquoted (table: string): string {
  return table.replaceAll('"', '')
}

/** PostgreSQL's reason names tables, columns and types; it is for the platform's operator. */
function refused ({ name }: PlannedMigration, step: MigrationStep, error: unknown): unknown {
  if (isOutage(error)) return error
  const reason = error instanceof TenantryError ? error.cause : error
  const text = reason instanceof Error ? fullTextOf(reason) : undefined
  if (text === undefined) return error
  return failure('conflict', {
    message: `The migration ${name} cannot be applied${step.table === undefined ? '' : ` to ${shown(step)}`}: ${text}`,
    cause: reason
  })
}
