/** The file beside a dump that describes its content, and the number of rows of each table. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { ClientBase } from 'pg'
import { everyTenant, tenantSetting } from '../database/connections.js'
import { accessPolicy, isolationPolicy } from '../database/migrations/policies.js'
import { literal } from '../database/sql.js'
import { isRecord, jsonIn } from '../json/plain-value.js'
import { type PgProgram, runProgram } from './programs.js'

/** By name, with the schema, quoted if necessary. */
export type Counts = Readonly<Record<string, number>>

/** Tables whose rows a dump contains: not those of extensions, and not temporary ones. */
const tablesText = `
select quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and c.relpersistence <> 't' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
order by 1`

/** Tables whose own policies may hide rows from the role. */
const hiddenText = `
select distinct c.oid::regclass::text as name
from pg_class c join pg_policy p on p.polrelid = c.oid, pg_roles r
where r.rolname = current_user and not r.rolsuper and not r.rolbypassrls and c.relrowsecurity
  and (c.relforcerowsecurity or not pg_has_role(c.relowner, 'usage')) and p.polname not in (${literal(isolationPolicy)}, ${literal(accessPolicy)})
order by 1`

async function namesOf (client: ClientBase, text: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(text)
  return rows.map(({ name }) => name)
}

export async function tablesOf (client: ClientBase): Promise<string[]> {
  return namesOf(client, tablesText)
}

/** Begins a transaction that sees one moment of the database, and the rows of every tenant. */
export async function beginSnapshot (client: ClientBase): Promise<void> {
  await client.query('begin isolation level repeatable read read only')
  await client.query(
    `set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0; set local ${tenantSetting} = ${literal(everyTenant)}`
  )
}

/** The fault if policies of the application may hide rows from this role; null if they cannot. */
export async function hiddenFault (client: ClientBase): Promise<string | null> {
  const hidden = await namesOf(client, hiddenText)
  if (hidden.length === 0) return null
  return `your own policies can hide rows of ${hidden.join(', ')} from this role: use a role with BYPASSRLS, for example with another DATABASE_URL`
}

/** Whether policies do not bind the role. */
export async function bypasses (client: ClientBase): Promise<boolean> {
  const { rows: [role] } = await client.query<{ bypasses: boolean }>(
    'select rolsuper or rolbypassrls as bypasses from pg_roles where rolname = current_user'
  )
  return role?.bypasses === true
}

/** The rows of each table. The client is in a transaction of `beginSnapshot`. */
export async function countRows (client: ClientBase): Promise<Counts> {
  const counts: Record<string, number> = {}
  for (const name of await tablesOf(client)) {
    const { rows: [row] } = await client.query<{ count: string }>(`select count(*) from only ${name}`)
    counts[name] = Number(row?.count)
  }
  return counts
}

const name = '(?:"(?:[^"]|"")+"|[^ ".(]+)'
const copyLine = new RegExp(`^COPY (${name}\\.${name}) (?:\\(.*\\) )?FROM stdin;$`)

/** The rows of each table in the dump. A row is a line: the format of COPY escapes line breaks. */
export async function countDumped (program: PgProgram, file: string, env: NodeJS.ProcessEnv): Promise<Counts> {
  const counts: Record<string, number> = {}
  let table: string | null = null
  const onLine = (line: Buffer) => {
    if (table === null) {
      table = copyLine.exec(line.toString('utf8'))?.[1] ?? null
      if (table !== null) counts[table] = 0
    } else if (line.length === 2 && line.toString('latin1') === '\\.') {
      table = null
    } else {
      counts[table] = (counts[table] ?? 0) + 1
    }
  }
  await runProgram(program, ['--data-only', '--file=-', file], env, { onLine })
  return counts
}

/** The differences, a line for each table; empty if all rows of the first are in the second. */
export function differences (wanted: Counts, found: Counts, place: string): string[] {
  return Object.entries(wanted).filter(([table, count]) => found[table] !== count)
    .map(([table, count]) => `${table}: ${count} rows in the backup's snapshot, ${found[table] ?? 'no table'} ${place}`)
}

export const dumpFile = 'database.dump'
const manifestFile = 'manifest.json'

export interface Manifest {
  /** The version of tenantry. */
  readonly version: string
  readonly createdAt: string
  /** The major versions of the server and of pg_dump. */
  readonly server: number
  readonly pgDump: number
  /** SHA-256 of the dump, in hexadecimal. */
  readonly sha256: string
  readonly rows: Counts
}

export async function writeManifest (folder: string, manifest: Manifest): Promise<void> {
  await writeFile(join(folder, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 })
}

/** Throws if the folder has no complete backup. */
export async function readManifest (folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, manifestFile), 'utf8').catch(() => {
    throw new Error(`${folder} does not contain a complete backup: ${manifestFile} is missing`)
  })
  const manifest = jsonIn(text)
  if (!isManifest(manifest)) throw new Error(`${join(folder, manifestFile)} is not the manifest of a backup`)
  if (await hashOf(join(folder, dumpFile)) !== manifest.sha256) {
    throw new Error(`${join(folder, dumpFile)} is damaged: its SHA-256 differs from the manifest`)
  }
  return manifest
}

export async function hashOf (file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

function isManifest (value: unknown): value is Manifest {
  if (!isRecord(value)) return false
  const { rows, sha256, server, pgDump } = value
  return typeof sha256 === 'string' && Number.isInteger(server) && Number.isInteger(pgDump) && isRecord(rows) &&
    Object.values(rows).every(Number.isInteger)
}
