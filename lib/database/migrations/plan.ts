/** What a database lacks: the migrations that are to be applied, in order. */
import type { Session } from '../engine.js'
import type { WantedTable } from '../declared-tables.js'
import type { RoleTables } from '../role-tables.js'
import type { MigrationPlan, PlannedMigration } from './migration.js'
import type { SystemMigration } from './system/system-migration.js'
import { identifier, literal } from '../sql.js'
import { appliedMigrations, inspect, type AppliedMigration, type Inspection, type TableState } from './inspection.js'
import { disableStatements, noSecurity, policyStatements } from './policies.js'
import { systemMigrations } from './system/index.js'
import { isOfRoleTables, roleTableMigrations } from './system/role-tables.js'
import { difference, needsRows } from './tables.js'

export interface PlanOptions {
  readonly schema: string
  readonly wanted: ReadonlyMap<string, WantedTable>
  /** The tables of the platform's roles; null where the document has none. */
  readonly roleTables: RoleTables | null
  readonly rowLevelSecurity: boolean
  /** false plans without policies, and takes those that are there out of force. Default: true. */
  readonly policies?: boolean
}

type Draft = Omit<PlannedMigration, 'name'> & { readonly description: string }

/** Reads the database and plans. Throws where the database has a migration that this version does not know. */
export async function planMigration (session: Session, options: PlanOptions): Promise<MigrationPlan> {
  const inspection = await inspect(session, options.schema)
  refuseNewer(inspection.applied)
  const warnings: string[] = []
  const drafts = [
    ...systemDrafts(inspection.applied, options),
    ...await declaredDraft(session, inspection, options, warnings),
    ...options.policies === false ? insecureDraft(inspection, options) : policyDraft(inspection, options, warnings)
  ]
  return {
    migrations: named(drafts, inspection.applied),
    warnings,
    tables: Object.fromEntries([
      ...wantedSystemMigrations(options).flatMap(({ tables }) => tables).map((name) => [name, inspection.systemTables.has(name)]),
      ...[...options.wanted.keys()].map((name) => [name, inspection.catalogue.tables.has(name)])
    ])
  }
}

/** The first of the plan; null where nothing is lacking. Before the server's own tables are all there, only their records are read. */
export async function planNext (session: Session, options: PlanOptions): Promise<PlannedMigration | null> {
  const applied = await appliedMigrations(session)
  refuseNewer(applied)
  const own = named(systemDrafts(applied, options), applied)
  return own[0] ?? (await planMigration(session, options)).migrations[0] ?? null
}

/** The whole of a plan as a script for psql: each migration in a transaction, with its record. */
export function planSql ({ migrations }: MigrationPlan): string {
  return migrations.map((migration) => {
    const statements = [...migration.statements, recordSql(migration)].map((statement) => `${statement};`)
    return `-- ${migration.name}\nbegin;\n${statements.join('\n')}\ncommit;\n`
  }).join('\n')
}

/** SQL that records a migration as applied. */
export function recordSql ({ name, kind }: Pick<PlannedMigration, 'name' | 'kind'>): string {
  return `insert into tenantry.migrations (name, kind) values (${literal(name)}, ${literal(kind)})`
}

const numbered = /^\d+_/

function named (drafts: readonly Draft[], applied: readonly AppliedMigration[]): PlannedMigration[] {
  const last = Math.max(0, ...applied.map(({ name }) => Number.parseInt(name, 10) || 0))
  return drafts.map(({ description, ...draft }, index) => ({ name: `${String(last + 1 + index).padStart(3, '0')}_${description}`, ...draft }))
}

function refuseNewer (applied: readonly AppliedMigration[]): void {
  const known = new Set(systemMigrations.map(({ description }) => description))
  const unknown = applied.find(({ name, kind }) => {
    const description = name.replace(numbered, '')
    return kind === 'system' && !known.has(description) && !isOfRoleTables(description)
  })
  if (unknown !== undefined) throw new Error(`the database is newer than this version of tenantry, which does not know its migration ${unknown.name}: update tenantry`)
}

function wantedSystemMigrations ({ roleTables }: PlanOptions): readonly SystemMigration[] {
  return roleTables === null ? systemMigrations : [...systemMigrations, ...roleTableMigrations(roleTables)]
}

function systemDrafts (applied: readonly AppliedMigration[], options: PlanOptions): Draft[] {
  const { policies = true } = options
  const done = new Set(applied.filter(({ kind }) => kind === 'system').map(({ name }) => name.replace(numbered, '')))
  return wantedSystemMigrations(options).filter(({ description }) => !done.has(description)).map(({ description, tables, statements }) => ({
    description, kind: 'system', tables, statements: statements({ policies }), required: true
  }))
}

/** All tables of the document in one migration, since they refer to each other. */
async function declaredDraft (session: Session, { catalogue, states }: Inspection, { schema, wanted, policies = true }: PlanOptions, warnings: string[]): Promise<Draft[]> {
  const statements: string[] = []
  const references: string[] = []
  const created: string[] = []
  const altered: string[] = []
  for (const table of wanted.values()) {
    const existing = catalogue.tables.get(table.name)
    const name = `${identifier(schema)}.${identifier(table.name)}`
    const hasRows = existing !== undefined && !existing.view && needsRows(table, existing) && await isFilled(session, name)
    const found = difference(table, { schema, existing, state: states.get(table.name), hasRows })
    warnings.push(...found.warnings)
    if (found.statements.length + found.references.length > 0) (existing === undefined ? created : altered).push(table.name)
    statements.push(...found.statements)
    references.push(...found.references)
    const tenantColumn = existing?.columns.get('tenant_id') ?? table.columns.get('tenant_id')
    // Those of tables that are there come with the policies of all that were found.
    if (policies && table.tenantScoped && tenantColumn !== undefined && existing?.tenantScoped !== true && existing?.view !== true) {
      statements.push(...policyStatements(name, tenantColumn.type, states.get(table.name) ?? noSecurity))
    }
  }
  if (statements.length + references.length === 0) return []
  if (!await schemaExists(session, schema)) statements.unshift(`create schema ${identifier(schema)}`)
  const description = created.length > 0 ? describe('create', created) : describe('alter', altered)
  return [{ description, kind: 'tables', tables: [...created, ...altered], statements: [...statements, ...references], required: true }]
}

/** Tenant-scoped tables that are there, declared or not, and lack a policy. */
function policyDraft ({ catalogue, states }: Inspection, { schema, rowLevelSecurity }: PlanOptions, warnings: string[]): Draft[] {
  const tables: string[] = []
  const statements: string[] = []
  for (const { name, type, state } of securable(catalogue, states)) {
    const lacking = policyStatements(`${identifier(schema)}.${identifier(name)}`, type, state)
    if (lacking.length === 0) continue
    if (!state.owned) {
      warnings.push(`${name} has no policy that keeps tenants apart, and this role does not own it: its owner must apply ${lacking.join('; ')}`)
      continue
    }
    tables.push(name)
    statements.push(...lacking)
  }
  return tables.length === 0 ? [] : [{ description: describe('isolate', tables), kind: 'tables', tables, statements, required: rowLevelSecurity }]
}

/** The opposite, for development: policies stay and are out of force. */
function insecureDraft ({ catalogue, states, tenantOwned }: Inspection, { schema }: PlanOptions): Draft[] {
  const found = [...securable(catalogue, states)].filter(({ state }) => state.enabled && state.owned)
  const names = [
    ...tenantOwned,
    ...found.map(({ name }) => `${identifier(schema)}.${identifier(name)}`)
  ]
  if (names.length === 0) return []
  const tables = found.map(({ name }) => name)
  return [{ description: 'disable_row_level_security', kind: 'tables', tables, statements: names.flatMap(disableStatements), required: false }]
}

function * securable (catalogue: Inspection['catalogue'], states: Inspection['states']): Iterable<{ name: string, type: string, state: TableState }> {
  for (const { name, columns } of catalogue.tables.values()) {
    const column = columns.get('tenant_id')
    const state = states.get(name)
    if (column !== undefined && state?.securable === true) yield { name, type: column.type, state }
  }
}

async function isFilled (session: Session, name: string): Promise<boolean> {
  const [found] = await session.rows<{ filled: boolean }>({ text: `select exists (select from ${name}) as filled` })
  return found?.filled === true
}

async function schemaExists (session: Session, schema: string): Promise<boolean> {
  const [found] = await session.rows<{ there: boolean }>({ text: 'select exists (select from pg_namespace where nspname = $1) as there' }, [schema])
  return found?.there === true
}

const maxNamed = 3 // tables in the name of a migration

/** `create_authors_books`, `create_a_b_c_and_4_more`. */
function describe (verb: string, tables: readonly string[]): string {
  const words = [verb, ...tables.slice(0, maxNamed)]
  if (tables.length > maxNamed) words.push('and', String(tables.length - maxNamed), 'more')
  return words.join('_').toLowerCase().replaceAll(/[^a-z0-9_]/g, '_')
}
