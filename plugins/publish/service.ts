/** Publishes rows for administrators of the platform. If columns are missing, the response names them. */
import type { FastifyInstance } from 'fastify'
import { oncePerObject } from '../../lib/cache/weak-memo.js'
import type { AuditEntry } from '../../lib/database/audit.js'
import { type Catalogue, isTenantComputed, keyColumns, type Table } from '../../lib/database/catalogue.js'
import { readCatalogue } from '../../lib/database/catalogue-reader.js'
import type { Engine } from '../../lib/database/engine.js'
import { planSql } from '../../lib/database/migrations/plan.js'
import { failure, isFailure, type TenantryError } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import type { ScopeTenant } from '../../lib/expressions/types.js'
import { platformRef, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { isInteger } from '../../lib/json/exact-number.js'
import { parseResult } from '../../lib/json/parse.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { optional } from '../../lib/plugin/define.js'
import type { CompiledQuery } from '../../lib/queries/compiled-query.js'
import { tenantComputed, writeTypeFault } from '../../lib/queries/context.js'
import { compileQuery } from '../../lib/queries/index.js'
import { atInputPointers } from '../../lib/runtime/input-pointers.js'
import { FaultList, meant } from '../../lib/schema/faults.js'
import { type ErrorDetail, invalidInput } from '../../lib/validation/detail.js'
import { writeAudited } from '../audit/audited-write.js'
import { type ActingRequest, actorOf } from '../auth/actor.js'
import { columnFaults, columnsSql, missingColumn, shown, tableFaults, tableSql, takenFault, tenantFault } from './schema-diff.js'

/** A platform administrator, and the tenant of X-Tenant-ID. */
export interface Publisher extends ActingRequest {
  readonly tenant: ScopeTenant | null
}

export type Publishing = ReturnType<typeof createPublishing>

/** By column. */
type Values = Readonly<Record<string, unknown>>

const maxMissing = 100 // columns in a response, with their SQL
const maxDetails = 20

export function createPublishing (app: FastifyInstance) {
  const { engine } = app
  const [cache, emitter] = [optional(app, 'cache'), optional(app, 'webhooks')]

  const insertInto = oncePerObject((table: Table): CompiledQuery => {
    const compiled = compileQuery({ table: table.name, operation: 'insert', single: true, data: '{{body.data}}' }, '', {
      faults: new FaultList(),
      sources: new Set(['body']),
      env: {},
      catalogue: engine.catalogue,
      pagination: { defaultLimit: 1, maxLimit: 1, defaultOffset: 0 },
      excludeFields: [],
      sharedTables: new Set(),
      // Publishers choose the columns: their statements use the room of tenants' statements and cannot displace the platform's.
      origin: table.tenantScoped ? 'tenant' : 'platform'
    })
    if (compiled === null) throw new Error(`the insert into ${table.name} cannot be compiled`)
    return compiled
  })

  async function write (publisher: Publisher, table: Table, data: Values): Promise<string> {
    if (table.view) throw viewFault(table)
    const typeFault = writeTypeFault(table, engine.catalogue)
    if (typeFault !== undefined) throw invalidInput('/body/table', typeFault, 'type')
    if (isTenantComputed(table)) throw invalidInput('/body/table', tenantComputed(table.name), 'readOnly')
    const tenant = ownerOf(publisher, table)
    const compiled = insertInto(table)
    const webhooks = emitter()
    const events = webhooks !== null && await webhooks.hasSubscribers(tenantOrPlatform(tenant))
    // The insert reads nothing else: values are never evaluated as templates.
    const bound = compiled.bind({ ...noScope, body: { data }, tenant, fullAccess: true, events })
    try {
      const record = await writeAudited({ engine, cache: cache(), webhooks }, {
        tenant: tenantOrPlatform(tenant),
        compiled,
        bound,
        events,
        entry: (text) => entryOf(publisher, tenant, table, text),
        // An insert returns its row, unless a trigger of the application drops it.
        missing: async () => failure('constraintViolated')
      })
      return `{"success":true,"table":${JSON.stringify(table.name)},"data":${record}}`
    } catch (error) {
      throw atInputPointers(error, compiled, bound)
    }
  }

  /** The missing objects of the database for the record, checked again; undefined if it has all. */
  async function missingFor ({ tenant }: Publisher, name: string, data: Values): Promise<TenantryError | undefined> {
    // After running the SQL, the caller may publish at once.
    const { schema, tables: known } = await engine.refresh()
    const table = (await liveTables(engine)).get(name)
    const declared = known.get(name)
    const missing = Object.keys(data).filter((column) => table?.columns.has(column) !== true)
    const undeclared = missing.filter((column) => declared?.columns.has(column) !== true)
    if (table !== undefined) return missing.length === 0 ? undefined : missingColumns(schema, table, missing, undeclared, data)

    if (declared !== undefined) {
      const sql = await declaredSql(name)
      return failure('notFound', {
        message:
          `The table "${name}" is declared but not created yet: run "tenantry migrate", send POST /migration/apply, or run the SQL in \`sql\``,
        extras: { table: name, sql }
      })
    }
    const faults = [...tableFaults(name), ...columnFaults(undeclared)]
    if (faults.length > 0) return refusal(faults)
    const { schema: hasSchema, taken } = await nameUse(engine, name)
    if (taken) return refusal([takenFault])
    if (undeclared.length > maxMissing) {
      return failure('notFound', {
        message: `There is no table "${name}", and no SQL is proposed for more than ${maxMissing} columns: declare it under \`tables\``,
        extras: { table: name }
      })
    }
    return failure('notFound', {
      message: `There is no table "${name}"${
        meant(name, known.keys()) || '.'
      } To create it, review and run the SQL in \`sql\`, whose types are derived from the values; or declare the table under \`tables\` and migrate`,
      extras: { table: name, sql: tableSql({ schema, hasSchema }, name, data, tenant !== null) }
    })
  }

  async function missingColumns (
    schema: string,
    table: Table,
    missing: readonly string[],
    undeclared: readonly string[],
    data: Values
  ): Promise<TenantryError> {
    if (table.view) return viewFault(table)
    const extras = { table: table.name, unknown: undeclared.slice(0, maxMissing).map(shown) }
    const faults = [...columnFaults(undeclared), ...tenantFault(undeclared)]
    if (faults.length > 0) return refusal(faults, extras)
    const details = missing.slice(0, maxDetails).map((column) => missingColumn(table, column, !undeclared.includes(column)))
    const message = `"${table.name}" lacks ${missing.length === 1 ? 'a column' : `${missing.length} columns`}`
    if (missing.length > maxMissing) {
      return failure('validationFailed', {
        message: `${message}: no SQL is proposed for more than ${maxMissing} columns`,
        extras: { details, ...extras }
      })
    }
    const sql = [
      ...undeclared.length < missing.length ? [await declaredSql(table.name)] : [],
      ...undeclared.length > 0 ? [columnsSql(schema, table, Object.fromEntries(undeclared.map((column) => [column, data[column]])))] : []
    ].join('\n')
    return failure('validationFailed', {
      message: `${message}: correct the names, or review and run the SQL in \`sql\``,
      extras: { details, ...extras, missing, sql }
    })
  }

  /** The migrations up to the one that creates or changes the declared table. */
  async function declaredSql (name: string): Promise<string> {
    const plan = await engine.migration.plan()
    const last = plan.migrations.findIndex(({ kind, tables }) => kind === 'tables' && tables.includes(name))
    return planSql({ ...plan, migrations: plan.migrations.slice(0, last + 1) })
  }

  return {
    /** Which of the tables exist: including views, and declared tables once they are created. */
    async check (names: readonly string[]) {
      const found = await liveTables(engine)
      const tables = Object.fromEntries(names.map((name) => [name, found.has(name)]))
      const missing = Object.keys(tables).filter((name) => tables[name] === false)
      return { ready: missing.length === 0, tables, missing }
    },

    /**
     * Inserts the record, in an audited transaction; the result is JSON text. Throws `notFound` for a missing table and `validationFailed`
     * for missing columns, with the SQL that would add them; and `tenantRequired`.
     */
    async entity (publisher: Publisher, name: string, data: Values): Promise<string> {
      const known = engine.catalogue.tables.get(name)
      if (known !== undefined && Object.keys(data).every((column) => known.columns.has(column))) {
        try {
          return await write(publisher, known, data)
        } catch (error) {
          // The table may be declared and not migrated, or have changed since it was read.
          if (!isFailure(error, 'schemaChanged')) throw error
          throw await missingFor(publisher, name, data) ?? error
        }
      }
      const missing = await missingFor(publisher, name, data)
      if (missing !== undefined) throw missing
      const table = engine.catalogue.tables.get(name)
      if (table === undefined) throw failure('schemaChanged', { headers: { 'retry-after': '1' } })
      return await write(publisher, table, data)
    }
  }
}

/** The tenant of the row; null in a table without tenants. */
function ownerOf ({ tenant }: Publisher, { name, tenantScoped }: Table): ScopeTenant | null {
  if (!tenantScoped) return null
  if (tenant === null) throw failure('tenantRequired', { message: `Rows of "${name}" belong to a tenant: send the X-Tenant-ID header` })
  return tenant
}

function entryOf ({ auth, ip, idempotency = null }: Publisher, tenant: ScopeTenant | null, table: Table, text: string): AuditEntry {
  const id = idOf(table, text)
  return {
    tenant: tenantOrPlatform(tenant),
    action: 'publish.entity',
    actor: actorOf({ auth, ip, tenant, idempotency }),
    target: id === undefined ? table.name : `${table.name}:${id}`,
    details: { table: table.name },
    at: new Date()
  }
}

/** The key of the record; undefined if it has several columns, or none, or is neither a text nor an integer. */
function idOf (table: Table, text: string): string | undefined {
  const [key, ...others] = keyColumns(table)
  const record: unknown = parseResult(text)
  if (key === undefined || others.length > 0 || !isRecord(record)) return undefined
  const id = record[key]
  return typeof id === 'string' || isInteger(id) ? String(id) : undefined
}

function viewFault ({ name }: Table): TenantryError {
  return invalidInput('/body/table', `"${name}" is a view: its rows can only be read`, 'readOnly')
}

function refusal (details: readonly ErrorDetail[], extras: Readonly<Record<string, unknown>> = {}): TenantryError {
  return failure('validationFailed', { extras: { details: details.slice(0, maxDetails), ...extras } })
}

/** The tables that the database has now: the engine's own catalogue also includes declared tables that are not created yet. */
async function liveTables (engine: Pick<Engine, 'catalogue' | 'transaction'>): Promise<Catalogue['tables']> {
  const { catalogue } = await engine.transaction({ tenant: platformRef }, (session) => readCatalogue(session, engine.catalogue.schema))
  return catalogue.tables
}

// Array types rename themselves.
const nameUseText = `select n.oid is not null as schema,
  exists (select from pg_class where relnamespace = n.oid and relname = $2) or exists (select from pg_type where typnamespace = n.oid and typname = $2 and typcategory <> 'A') as taken
from (values ($1::text)) asked (name) left join pg_namespace n on n.nspname = asked.name`

/** Whether the schema exists, and whether another object has the name: a partition, an index, a sequence, a type. */
async function nameUse (engine: Pick<Engine, 'catalogue' | 'transaction'>, name: string) {
  const [found] = await engine.transaction(
    { tenant: platformRef },
    (session) => session.rows<{ schema: boolean, taken: boolean }>({ text: nameUseText }, [engine.catalogue.schema, name])
  )
  return { schema: found?.schema === true, taken: found?.taken === true }
}
