/**
 * The steps of a migration. A server keeps serving while they run, so no step may block reads or writes of an existing table for long.
 * PostgreSQL queues every later request behind a waiting lock: a step therefore stops waiting quickly and tries again, and long work runs
 * under locks that block neither reads nor writes.
 */

/**
 * - `make`: one transaction that creates new objects and writes the server's own rows
 * - `change`: one transaction of short statements on one existing table
 * - `scan`: one transaction that reads a whole table under a lock which blocks neither reads nor writes
 * - `alone`: statements that PostgreSQL refuses in a transaction, one after the other; repeatable
 */
export type StepKind = 'make' | 'change' | 'scan' | 'alone'

export interface MigrationStep {
  readonly kind: StepKind
  readonly statements: readonly string[]
  /** The existing table that it locks, quoted; undefined if it only creates new objects. */
  readonly table?: string
  /** Removes the leftovers of a failed attempt. */
  readonly undo?: string
}

/** The wait of a step for one lock. Requests that queue behind this wait are blocked as long. */
export const lockTimeoutMs = 80
/** The time limit of one statement of a `change`, with its waits: an inheritance tree has a lock for each table. */
export const changeTimeoutMs = 150

/** Settings of the transaction in which a step runs. */
export function settingsOf ({ kind }: MigrationStep): Readonly<Record<string, string>> {
  return kind === 'change'
    ? { lock_timeout: `${lockTimeoutMs}ms`, statement_timeout: `${changeTimeoutMs}ms` }
    : { lock_timeout: `${lockTimeoutMs}ms` }
}

/** The step as a script for psql. */
export function stepSql (step: MigrationStep): string {
  const statements = step.statements.map((statement) => `${statement};\n`)
  if (step.kind === 'alone') {
    return `-- the next ${statements.length === 1 ? 'statement' : 'statements'} cannot run in a transaction\n${statements.join('')}`
  }
  const settings = Object.entries(settingsOf(step)).map(([name, value]) => `set local ${name} = '${value}';\n`)
  return `begin;\n${settings.join('')}${statements.join('')}commit;\n`
}

export function make (statements: readonly string[]): MigrationStep[] {
  return statements.length === 0 ? [] : [{ kind: 'make', statements }]
}

export function change (table: string, statements: readonly string[]): MigrationStep[] {
  return statements.length === 0 ? [] : [{ kind: 'change', table, statements }]
}

export function scan (table: string, statement: string): MigrationStep {
  return { kind: 'scan', table, statements: [statement] }
}

/**
 * Builds an index while its table is read and written. A failed or killed attempt leaves an invalid index behind, so each attempt removes
 * that first.
 *
 * @param name  of the index, quoted, without the schema
 */
export function buildIndex (
  { schema, table, name, unique, rest }: { schema: string, table: string, name: string, unique: boolean, rest: string }
): MigrationStep {
  const undo = `drop index concurrently if exists ${schema}.${name}`
  return {
    kind: 'alone',
    table,
    statements: [undo, `create ${unique ? 'unique ' : ''}index concurrently ${name} on ${table} ${rest}`],
    undo
  }
}

/** All of them in one transaction: for an engine with one session, where no request runs meanwhile. */
export function together (steps: readonly MigrationStep[]): MigrationStep[] {
  return make(steps.flatMap(({ statements }) => statements))
}
