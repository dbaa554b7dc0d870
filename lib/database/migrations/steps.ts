/**
 * The steps of a migration. A server keeps serving while they run, so no step may block reads or writes of an existing table for long.
 * PostgreSQL queues every later request behind a waiting lock: a step therefore stops waiting quickly and tries again, and long work runs
 * under locks that block neither reads nor writes.
 */
import { literal } from '../sql.js'

/**
 * - `make`: one transaction that creates new objects and writes the server's own rows
 * - `change`: one transaction of short statements on one existing table
 * - `scan`: one transaction that reads a whole table under a lock which blocks neither reads nor writes
 * - `alone`: statements that PostgreSQL refuses in a transaction, one after the other; repeatable
 */
type StepKind = 'make' | 'change' | 'scan' | 'alone'

export interface MigrationStep {
  readonly kind: StepKind
  readonly statements: readonly string[]
  /** The existing table that it changes, quoted; undefined if it only creates new objects. */
  readonly table?: string
  /** The existing tables to which its new references refer, quoted: PostgreSQL locks them like the table itself. Default: none. */
  readonly referenced?: readonly string[]
  /** Removes the leftovers of a failed attempt. */
  readonly undo?: string
}

/** The wait of a step for one lock. Requests that queue behind this wait are blocked as long. */
export const lockTimeoutMs = 80
/** The time limit of one statement of a `change`, with its waits: an inheritance tree has a lock for each table. */
const changeTimeoutMs = 150

/** A wait after which PostgreSQL has canceled an autovacuum that holds the lock: it does so after `deadlock_timeout`. */
const autovacuumWait = "(extract(epoch from current_setting('deadlock_timeout')::interval) * 1000 + 1000)::int"

/** Settings of the transaction in which a step runs. */
export function settingsOf ({ kind }: MigrationStep): Readonly<Record<string, string>> {
  return { lock_timeout: `${lockTimeoutMs}ms`, ...kind === 'change' && { statement_timeout: `${changeTimeoutMs}ms` } }
}

/** The existing tables that the step locks. */
export function lockedTables ({ table, referenced = [] }: MigrationStep): string[] {
  return [...new Set(table === undefined ? referenced : [table, ...referenced])]
}

/**
 * The statements of the transaction in which a step runs, after its settings. A step on existing tables first takes a lock of each that
 * blocks neither reads nor writes, also while it waits. An autovacuum has the same lock, and would outlast each short wait.
 */
export function statementsOf (step: MigrationStep): string[] {
  const { kind, statements } = step
  const tables = lockedTables(step)
  if (tables.length === 0 || kind === 'alone') return [...statements]
  return [
    `select set_config('lock_timeout', ${autovacuumWait} || 'ms', true), set_config('statement_timeout', '0', true)`,
    ...tables.map(lockSql),
    ...Object.entries(settingsOf(step)).map(([name, value]) => `set local ${name} = '${value}'`),
    ...statements
  ]
}

/** A role that may refer to a table may lack the right to lock it. Foreign tables cannot be locked, and have no autovacuum. */
function lockSql (table: string): string {
  const refusals = 'insufficient_privilege or wrong_object_type'
  return `do ${literal(`begin lock table ${table} in share update exclusive mode; exception when ${refusals} then null; end`)}`
}

/** The step as a script for psql. */
export function stepSql (step: MigrationStep): string {
  const statements = statementsOf(step).map((statement) => `${statement};\n`)
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

/** Adds a reference to the table `referenced`. */
export function refer (table: string, referenced: string, statement: string): MigrationStep {
  return { kind: 'change', table, referenced: [referenced], statements: [statement] }
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

// Turns the statements of a system migration into steps. A table of an earlier version may be large by now; one that this run creates is
// empty, and unknown to other sessions.

const table = '[\\w.]*"[^"]+"|[\\w.]+'
const createTable = new RegExp(`^create table (?:if not exists )?(${table})`)
const createIndex = new RegExp(`^create (unique )?index (?:(\\w+) )?on (${table}) ([^]*)$`)
const validate = new RegExp(`^alter table (${table}) validate constraint `)
const references = new RegExp(`\\breferences (${table})`, 'g')
const changes = new RegExp(`^(?:alter table|(?:create|alter|drop) policy \\w+ on|drop trigger \\w+ on) (${table})`)

/** The table that the statement creates. */
export function madeBy (statement: string): string | undefined {
  return createTable.exec(statement)?.[1]
}

/**
 * The steps of the statements from `done` on.
 *
 * @param made  tables that earlier migrations of the same run created
 */
export function systemSteps (statements: readonly string[], made: ReadonlySet<string>, done = 0): MigrationStep[] {
  const fresh = new Set([...made, ...statements.flatMap((statement) => madeBy(statement) ?? [])])
  const steps: MigrationStep[] = []
  for (const statement of statements.slice(done)) {
    const step = stepOf(statement, fresh)
    const last = steps.at(-1)
    const joins = last !== undefined && last.kind === step.kind && last.table === step.table &&
      (step.kind === 'make' || step.kind === 'change')
    if (joins) steps[steps.length - 1] = joined(last, step)
    else steps.push(step)
  }
  return steps
}

function joined (first: MigrationStep, second: MigrationStep): MigrationStep {
  const referenced = [...new Set([...first.referenced ?? [], ...second.referenced ?? []])]
  return { ...first, ...referenced.length > 0 && { referenced }, statements: [...first.statements, ...second.statements] }
}

function stepOf (statement: string, fresh: ReadonlySet<string>): MigrationStep {
  const [, unique, name, indexed = '', rest = ''] = createIndex.exec(statement) ?? []
  if (indexed !== '' && !fresh.has(indexed)) {
    if (name === undefined) throw new Error(`an index on the existing table ${indexed} needs a name`)
    return buildIndex({ schema: indexed.split('.')[0] ?? '', table: indexed, name, unique: unique !== undefined, rest })
  }
  const validated = validate.exec(statement)?.[1]
  if (validated !== undefined && !fresh.has(validated)) return scan(validated, statement)
  const changed = changes.exec(statement)?.[1]
  const step = changed !== undefined && !fresh.has(changed) ? change(changed, [statement])[0]! : make([statement])[0]!
  const referenced = referencedBy(statement).filter((name) => !fresh.has(name))
  return referenced.length === 0 ? step : { ...step, referenced }
}

/** The tables to which the references of the statement refer. */
function referencedBy (statement: string): string[] {
  if (!/^(?:create|alter) table /.test(statement)) return []
  return [...statement.matchAll(references)].flatMap(([, name]) => name ?? [])
}
