/** The rows with which `tenantry dev --seed` fills an empty database, from a file of SQL or JSON. */
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { type Kysely, sql } from 'kysely'
import type { Catalogue, Table } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import { unreadable } from '../../lib/document/dot-env.js'
import { parseJson } from '../../lib/document/json.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { expectedTenantId } from '../../lib/queries/tenant-types.js'
import { meant } from '../../lib/schema/faults.js'
import { CommandError } from '../failure.js'
import { statementsOf } from './sql-statements.js'

type Row = Readonly<Record<string, unknown>>
/** The rows of each table, by its name. */
type TableRows = ReadonlyArray<readonly [string, readonly Row[]]>

export interface Seed {
  /** Fills the database. If a table has rows already, returns its name and writes nothing. */
  fill(engine: Engine): Promise<string | undefined>
}

/** Reads the file; throws a CommandError or a ConfigError with the fault. */
export async function readSeed (file: string): Promise<Seed> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw unreadable(file, error)
  })
  switch (extname(file).toLowerCase()) {
    case '.sql': {
      const statements = statementsOf(text)
      return { fill: (engine) => fillEmpty(engine, async (db) => await runStatements(db, file, statements)) }
    }
    case '.json':
    case '.jsonc': {
      const tables = tablesOf(parseJson(text, file), file)
      return { fill: (engine) => fillEmpty(engine, async (db) => await insertRows(db, engine.catalogue, file, tables)) }
    }
    default:
      throw new CommandError(`--seed ${file}: expected a file that ends in .sql or .json`)
  }
}

/** In one transaction: a faulty seed leaves the database empty. */
async function fillEmpty (engine: Engine, write: (db: Kysely<never>) => Promise<void>): Promise<string | undefined> {
  if ((await engine.pendingMigrations()).length > 0) throw new CommandError('--seed: the database is not migrated: run "tenantry migrate"')
  const { catalogue: { schema, tables }, kysely: db } = engine
  for (const { name } of [...tables.values()].filter(({ view }) => !view)) {
    const { rows } = await sql`select 1 as found from ${sql.id(schema, name)} limit 1`.execute(db)
    if (rows.length > 0) return name
  }
  await db.withTables<never>().transaction().execute(async (transaction) => {
    await sql.raw(`set local search_path to ${quoted(schema)}, public`).execute(transaction)
    await write(transaction)
  })
  await engine.refresh()
  return undefined
}

async function runStatements (db: Kysely<never>, file: string, statements: ReturnType<typeof statementsOf>): Promise<void> {
  for (const { text, line } of statements) {
    await sql.raw(text).execute(db).catch((error: unknown) => {
      throw refused(`${file}:${line}`, error)
    })
  }
}

function tablesOf (document: unknown, file: string): TableRows {
  const expected = 'expected an object with a list of rows for each table, as in {"notes": [{"tenant_id": "acme", "text": "Buy milk"}]}'
  if (!isRecord(document)) throw new CommandError(`--seed ${file}: ${expected}`)
  return Object.entries(document).map(([table, rows]) => {
    if (!Array.isArray(rows) || !rows.every(isRecord)) {
      throw new CommandError(`--seed ${file}: /${table}: expected a list of rows, each an object; ${expected}`)
    }
    return [table, rows] as const
  })
}

/** In the order of the file: rows precede the rows that refer to them. */
async function insertRows (db: Kysely<never>, { schema, tables }: Catalogue, file: string, given: TableRows): Promise<void> {
  for (const [name, rows] of given) {
    const table = tables.get(name)
    if (table === undefined) throw new CommandError(`--seed ${file}: there is no table "${name}"${meant(name, tables.keys())}`)
    for (const [index, row] of rows.entries()) {
      const place = `${file}: /${name}/${index}`
      const columns = columnsOf(row, table, place)
      if (columns.length === 0) throw new CommandError(`--seed ${place}: the row has no columns`)
      const list = sql.join(columns.map((column) => sql.id(column)))
      const values = sql`jsonb_populate_record(null::${sql.id(schema, name)}, ${JSON.stringify(row)}::jsonb)`
      // Omitted columns get their defaults.
      const insert = sql`insert into ${sql.id(schema, name)} (${list}) select ${list} from ${values}`
      await insert.execute(db).catch((error: unknown) => {
        throw refused(place, error)
      })
    }
  }
}

function columnsOf (row: Row, { name, columns, tenantScoped }: Table, place: string): string[] {
  const unknown = Object.keys(row).find((column) => !columns.has(column))
  if (unknown !== undefined) {
    throw new CommandError(`--seed ${place}: the table "${name}" has no column "${unknown}"${meant(unknown, columns.keys())}`)
  }
  if (tenantScoped && row['tenant_id'] === undefined) {
    throw new CommandError(`--seed ${place}: a row of "${name}" belongs to a tenant: add "tenant_id"`)
  }
  const tenant = row['tenant_id'] ?? null
  const expected = tenantScoped && tenant !== null ? expectedTenantId(columns.get('tenant_id'), String(tenant)) : undefined
  if (expected !== undefined) throw new CommandError(`--seed ${place}: the "tenant_id" of a row of "${name}" must be ${expected}`)
  return Object.keys(row)
}

/** The terminal may show the message of the database: it belongs to the owner of the database. */
function refused (place: string, error: unknown): CommandError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return new CommandError(`--seed ${place}: ${cause instanceof Error ? cause.message : String(cause)}`)
}

function quoted (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
