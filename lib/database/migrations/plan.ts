/** The plan of a migration: the missing migrations, in order. */
import type { RoleTables, WantedTable } from '../declared-tables.js'
import type { VectorTable } from '../document-tables.js'
import type { Session } from '../engine.js'
import { identifier, literal, qualified } from '../sql.js'
import { isWatchable, triggerStatements, type WatchedTables } from './change-triggers.js'
import { type AppliedMigration, appliedMigrations, inspect, type Inspection } from './inspection.js'
import type { MigrationPlan, PlannedMigration } from './migration.js'
import { accessPolicy, disableStatements, noSecurity, policyStatements, renewStatements, type Security } from './policies.js'
import { change, madeBy, make, type MigrationStep, stepSql, systemSteps } from './steps.js'
import { systemMigrations } from './system/index.js'
import { isOfRoleTables, roleTableMigrations } from './system/role-tables.js'
import type { SystemMigration } from './system/system-migration.js'
import { isOfVectorTables, vectorTableMigrations } from './system/vector-tables.js'
import { difference, needsRows } from './tables.js'

export interface PlanOptions {
  readonly schema: string
  readonly wanted: ReadonlyMap<string, WantedTable>
  /** The tables of the platform's roles; null without them. */
  readonly roleTables: RoleTables | null
  /** The table of vectors in pgvector; null without one. */
  readonly vectorTable: VectorTable | null
  /** The tables whose changes are recorded. Default: none. */
  readonly watched?: WatchedTables | undefined
  readonly rowLevelSecurity: boolean
  /** Other sessions read and write existing tables while migrations run. */
  readonly concurrent: boolean
  /** false plans without policies, and disables existing policies. Default: true. */
  readonly policies?: boolean
  /** Tables that the same run created: they are empty. Default: none. */
  readonly made?: ReadonlySet<string>
}

type Draft = Omit<PlannedMigration, 'name'> & {
  readonly description: string,
  /** The number of its statements that an earlier run finished; undefined for a new migration. */
  readonly begun?: { readonly name: string, readonly done: number } | undefined,
  /** The count of statements after each step, for a system migration of several steps. */
  readonly counts?: readonly number[]
}

/** Reads the database and plans. Throws for an unknown migration in the database. */
export async function planMigration (session: Session, options: PlanOptions): Promise<MigrationPlan> {
  const inspection = await inspect(session, options.schema)
  refuseNewer(inspection.applied)
  const warnings: string[] = []
  const drafts = [
    ...systemDrafts(inspection.applied, options),
    ...await declaredDraft(session, inspection, options, warnings),
    ...triggerDraft(inspection, options, warnings),
    ...options.policies === false ? insecureDraft(inspection, options) : policyDraft(inspection, options, warnings)
  ]
  return {
    migrations: named(drafts, inspection.applied),
    warnings: [...warnings, ...drafts.flatMap(({ notes = [] }) => notes)],
    tables: Object.fromEntries([
      ...wantedSystemMigrations(options).flatMap(({ tables }) => tables).map((name) => [name, inspection.systemTables.has(name)]),
      ...[...options.wanted.keys()].map((name) => [name, inspection.catalogue.tables.has(name)])
    ])
  }
}

/** The first migration of a plan, and the plan's warnings. */
export interface NextMigration extends Pick<MigrationPlan, 'warnings'> {
  /** undefined if nothing is missing. */
  readonly migration: PlannedMigration | undefined
}

/** Until the server's own tables all exist, only their records are read, and there are no warnings. */
export async function planNext (session: Session, options: PlanOptions): Promise<NextMigration> {
  const applied = await appliedMigrations(session)
  refuseNewer(applied)
  const [own] = named(systemDrafts(applied, options), applied)
  if (own !== undefined) return { migration: own, warnings: [] }
  const { migrations: [migration], warnings } = await planMigration(session, options)
  return { migration, warnings }
}

/** The whole plan as a script for psql, with the record of each migration. */
export function planSql ({ migrations }: Pick<MigrationPlan, 'migrations'>): string {
  return migrations.map(({ name, steps }) => `-- ${name}\n${steps.map(stepSql).join('')}`).join('\n')
}

/** Whether the script has statements that PostgreSQL rejects in a transaction. */
export function hasLoneStatements ({ migrations }: Pick<MigrationPlan, 'migrations'>): boolean {
  return migrations.some(({ steps }) => steps.some(({ kind }) => kind === 'alone'))
}

export function recordSql ({ name, kind }: Pick<PlannedMigration, 'name' | 'kind'>): string {
  return `insert into tenantry.migrations (name, kind) values (${literal(name)}, ${literal(kind)})`
}

/** Earlier versions wrote some descriptions with spaces and hyphens. */
function normalized (description: string): string {
  return description.replace(/[ -]/g, '_')
}

function descriptionOf ({ name }: AppliedMigration): string {
  return name.replace(/^\d+_/, '')
}

/** The record of an unfinished system migration: its name, and the number of finished statements. */
const begunRecord = /^(\d+_(.+))\.(\d+)$/

function finished (applied: readonly AppliedMigration[]): AppliedMigration[] {
  return applied.filter(({ name }) => !begunRecord.test(name))
}

function named (drafts: readonly Draft[], applied: readonly AppliedMigration[]): PlannedMigration[] {
  let last = Math.max(0, ...applied.map(({ name }) => Number.parseInt(name, 10) || 0))
  return drafts.map(({ description, begun, counts, steps, ...draft }) => {
    const name = begun?.name ?? `${String(++last).padStart(3, '0')}_${description}`
    return { ...draft, name, steps: recorded(name, draft.kind, steps, begun !== undefined, counts) }
  })
}

/** Adds the records. A system migration of several steps records its progress, since its statements run once only. */
function recorded (
  name: string,
  kind: PlannedMigration['kind'],
  steps: readonly MigrationStep[],
  wasBegun: boolean,
  counts: readonly number[] = []
): MigrationStep[] {
  const manySteps = counts.length > 1
  const progress = `delete from tenantry.migrations where starts_with(name, ${literal(`${name}.`)})`
  const body = steps.map((step, index) => {
    const isLast = index === steps.length - 1
    if (!manySteps || isLast || step.kind === 'alone') return step
    return { ...step, statements: [...step.statements, progress, recordSql({ name: `${name}.${counts[index]}`, kind })] }
  })
  const record = [...manySteps || wasBegun ? [progress] : [], recordSql({ name, kind })]
  const last = body.at(-1)
  if (last === undefined || last.kind === 'alone' || last.kind === 'scan') return [...body, ...make(record)]
  return [...body.slice(0, -1), { ...last, statements: [...last.statements, ...record] }]
}

function refuseNewer (applied: readonly AppliedMigration[]): void {
  const known = new Set(systemMigrations.map(({ description }) => description))
  const unknown = finished(applied).find((migration) => {
    const description = descriptionOf(migration)
    return migration.kind === 'system' && !known.has(normalized(description)) && !isOfRoleTables(description) &&
      !isOfVectorTables(description)
  })
  if (unknown !== undefined) {
    throw new Error(
      `the database is newer than this version of tenantry, which does not know its migration ${unknown.name}: update tenantry`
    )
  }
}

function wantedSystemMigrations ({ roleTables, vectorTable, concurrent }: PlanOptions): readonly SystemMigration[] {
  return [
    ...systemMigrations,
    ...roleTables === null ? [] : roleTableMigrations(roleTables),
    ...vectorTable === null ? [] : vectorTableMigrations(vectorTable, concurrent)
  ]
}

function systemDrafts (applied: readonly AppliedMigration[], options: PlanOptions): Draft[] {
  const { policies = true, concurrent } = options
  const done = new Set(finished(applied).filter(({ kind }) => kind === 'system').map((migration) => normalized(descriptionOf(migration))))
  const made = new Set(options.made)
  return wantedSystemMigrations(options).filter(({ description }) => !done.has(normalized(description))).map(
    ({ description, tables, statements }) => {
      const texts = statements({ policies })
      const draft = { description, kind: 'system', tables, required: true } as const
      if (!concurrent) return { ...draft, steps: make(texts) }
      const begun = begunOf(description, applied)
      const steps = systemSteps(texts, made, begun?.done)
      for (const table of texts.flatMap((text) => madeBy(text) ?? [])) made.add(table)
      return { ...draft, begun, steps, counts: countsOf(steps, begun?.done ?? 0) }
    }
  )
}

function begunOf (description: string, applied: readonly AppliedMigration[]): Draft['begun'] {
  for (const { name: record } of applied) {
    const [, name = '', found = '', done] = begunRecord.exec(record) ?? []
    if (normalized(found) === normalized(description)) return { name, done: Number(done) }
  }
  return undefined
}

/** The number of finished statements of the migration after each step; an index is two statements in place of one. */
function countsOf (steps: readonly MigrationStep[], done: number): number[] {
  let count = done
  return steps.map(({ kind, statements }) => {
    count += kind === 'alone' ? 1 : statements.length
    return count
  })
}

/** Creates all missing tables in one transaction, since they refer to each other; then changes existing ones. */
async function declaredDraft (
  session: Session,
  { catalogue, states }: Inspection,
  options: PlanOptions,
  warnings: string[]
): Promise<Draft[]> {
  const { schema, wanted, policies = true, concurrent } = options
  const made: string[] = []
  const changes: MigrationStep[] = []
  const newReferences: string[] = []
  const references: MigrationStep[] = []
  const created: string[] = []
  const altered: string[] = []
  for (const table of wanted.values()) {
    const existing = catalogue.tables.get(table.name)
    const name = qualified(schema, table.name)
    const hasRows = existing !== undefined && !existing.view && needsRows(table, existing) && await exists(session, name)
    const found = difference(table, { schema, existing, state: states.get(table.name), hasRows, concurrent })
    warnings.push(...found.warnings)
    if (found.made.length + found.changes.length + found.references.length > 0) {
      ;(existing === undefined ? created : altered).push(table.name)
    }
    made.push(...found.made)
    changes.push(...found.changes)
    for (const { to, steps } of found.references) {
      // A reference between two new tables blocks no request; one to an existing table waits for its lock in a separate step.
      if (existing === undefined && !catalogue.tables.has(to)) newReferences.push(...steps.flatMap(({ statements }) => statements))
      else references.push(...steps)
    }
    const tenantColumn = existing?.columns.get('tenant_id') ?? table.columns.get('tenant_id')
    // Tables that already had the column get their policies with all other found tables.
    if (policies && table.tenantScoped && tenantColumn !== undefined && existing?.tenantScoped !== true && existing?.view !== true) {
      const secured = policyStatements(name, tenantColumn.type, states.get(table.name) ?? noSecurity)
      if (existing === undefined) made.push(...secured)
      else changes.push(...change(name, secured))
    }
  }
  made.push(...newReferences)
  if (made.length + changes.length + references.length === 0) return []
  if (!await exists(session, 'pg_namespace where nspname = $1', [schema])) made.unshift(`create schema ${identifier(schema)}`)
  const description = created.length > 0 ? describe('create', created) : describe('alter', altered)
  return [draftOf(description, [...created, ...altered], [...make(made), ...changes, ...references], true, options)]
}

function draftOf (
  description: string,
  tables: readonly string[],
  steps: readonly MigrationStep[],
  required: boolean,
  { concurrent }: PlanOptions
): Draft {
  // An engine with one session makes them in one transaction: no request runs meanwhile.
  return { description, kind: 'tables', tables, steps: concurrent ? steps : make(steps.flatMap(({ statements }) => statements)), required }
}

interface TableChange {
  readonly name: string
  readonly quoted: string
  readonly statements: readonly string[]
  readonly isOwned: boolean
}

/** A migration of existing tables. Of a table that this role does not own, the missing statements become a warning. */
function changeDraft (
  verb: string,
  lack: string,
  found: readonly TableChange[],
  required: boolean,
  options: PlanOptions,
  warnings: string[]
): Draft[] {
  const missing = found.filter(({ statements }) => statements.length > 0)
  const owned = missing.filter(({ isOwned }) => isOwned)
  for (const { name, statements } of missing.filter(({ isOwned }) => !isOwned)) {
    warnings.push(`${name} has no ${lack}, and this role does not own the table: its owner must run ${statements.join('; ')}`)
  }
  if (owned.length === 0) return []
  const names = owned.map(({ name }) => name)
  return [draftOf(describe(verb, names), names, owned.flatMap(({ quoted, statements }) => change(quoted, statements)), required, options)]
}

/** Existing tenant-scoped tables, declared or not, without a policy; and all tables with policies of an earlier version. */
function policyDraft (inspection: Inspection, options: PlanOptions, warnings: string[]): Draft[] {
  const notes: string[] = []
  const found = securable(inspection, options).map(({ name, quoted, type, state }) => {
    const statements = policyStatements(quoted, type, state)
    if (statements.length > 0 && state.owned) notes.push(...ownPolicies(name, state))
    return { name, quoted, statements, isOwned: state.owned }
  })
  const own = inspection.tenantOwned.map(({ quoted, security }) => {
    return { name: quoted, quoted, statements: renewStatements(quoted, 'text', security), isOwned: true }
  })
  const drafts = changeDraft('isolate', 'policy that isolates tenants', [...found, ...own], options.rowLevelSecurity, options, warnings)
  return drafts.map((draft) => ({ ...draft, ...notes.length > 0 && { notes } }))
}

/** Before, they did not bind the owner of the table, which is often the server's role. */
function ownPolicies (table: string, { policies }: Security): string[] {
  const own = policies.filter(({ name, permissive }) => permissive && name !== accessPolicy).map(({ name }) => `"${name}"`)
  if (own.length === 0) return []
  const subject = own.length === 1 ? `the policy ${own[0]}` : `the policies ${own.join(', ')}`
  return [`${table}: ${subject} of the application will bind the server too, which then lacks the rows that it hides: drop policies that tenants replace`]
}

/** Triggers on watched tables. Routes do not wait for them: watches are rejected until they exist. */
function triggerDraft ({ catalogue, states }: Inspection, options: PlanOptions, warnings: string[]): Draft[] {
  const { schema, wanted, watched = {} } = options
  const found = Object.entries(watched).flatMap(([name, { trigger = false }]) => {
    const table = catalogue.tables.get(name) ?? wanted.get(name)
    if (table === undefined || !isWatchable(table)) return []
    const state = states.get(name)
    const statements = triggerStatements(schema, table, trigger, state?.changeTrigger ?? null)
    return [{ name, quoted: qualified(schema, name), statements, isOwned: state?.owned !== false }]
  })
  return changeDraft('record_changes_of', 'trigger that records its changes', found, false, options, warnings)
}

/** The opposite of `policyDraft`, for development: policies stay but are disabled. */
function insecureDraft (inspection: Inspection, options: PlanOptions): Draft[] {
  const found = securable(inspection, options).filter(({ state }) => state.enabled && state.owned)
  const steps = [...inspection.tenantOwned, ...found].flatMap(({ quoted }) => change(quoted, disableStatements(quoted)))
  return steps.length === 0 ? [] : [draftOf('disable_row_level_security', found.map(({ name }) => name), steps, false, options)]
}

/** The application's tables with a tenant. */
function securable ({ catalogue, states }: Inspection, { schema }: PlanOptions) {
  return [...catalogue.tables.values()].flatMap(({ name, columns }) => {
    const type = columns.get('tenant_id')?.type
    const state = states.get(name)
    return type === undefined || state?.securable !== true ? [] : [{ name, quoted: qualified(schema, name), type, state }]
  })
}

/** Whether the table has rows that meet the condition. */
async function exists (session: Session, rows: string, values: readonly string[] = []): Promise<boolean> {
  const [found] = await session.rows<{ there: boolean }>({ text: `select exists (select from ${rows}) as there` }, values)
  return found?.there === true
}

const maxNamed = 3 // tables in the name of a migration

/** `create_authors_books`, `create_a_b_c_and_4_more`. */
function describe (verb: string, tables: readonly string[]): string {
  const words = [verb, ...tables.slice(0, maxNamed)]
  if (tables.length > maxNamed) words.push('and', String(tables.length - maxNamed), 'more')
  return words.join('_').toLowerCase().replaceAll(/[^a-z0-9_]/g, '_')
}
