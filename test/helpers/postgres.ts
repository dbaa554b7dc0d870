/**
 * Real PostgreSQL for tests, from npm: no installation and no container. The first test of a run takes about a second, each further
 * database some tens of milliseconds. If PostgreSQL's programs are missing, the test skips and names the command that installs
 * them (with CI=true it fails).
 */
import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Test } from 'tap'
import { atOnce } from './at-once.js'
import { systemSql } from './migrations.js'
import { BinariesMissing } from './postgres/binaries.js'
import type { ClusterOptions, StopMode } from './postgres/cluster.js'
import { startPrivateServer } from './postgres/private.js'
import { sharedServerPort } from './postgres/shared.js'

export type Row = Record<string, unknown>

/** Runs SQL independently of the tested code: to prepare a table, or to check what was written. */
export type RunSql = (sql: string, values?: readonly unknown[]) => Promise<Row[]>

export interface DatabaseOptions {
  /**
   * SQL that runs after the server's own tables are created. It runs once for all tests with the same text; each test gets a copy of
   * the resulting database.
   */
  readonly sql?: string
  /** Leaves out the server's own tables, so that a server that starts on the database creates them. Default: false. */
  readonly empty?: boolean
  /**
   * `superuser` (the default) bypasses row-level security. `owner` is an ordinary role that owns the database and obeys policies, as a
   * role in production should.
   */
  readonly role?: 'superuser' | 'owner'
}

/** A database for one test, dropped when the test ends. */
export interface TestDatabase {
  readonly name: string
  readonly connectionString: string
  /** Runs SQL as the role of `connectionString`. */
  readonly query: RunSql
  /** Runs SQL as a superuser, who bypasses all policies. */
  readonly admin: RunSql
  /** Ends every connection to this database, as a failover does; new ones are accepted. Returns the number of ended connections. */
  disconnect(): Promise<number>
}

/** A server for one test, removed when the test ends. */
export interface TestServer {
  readonly port: number
  readonly connectionString: string
  readonly query: RunSql
  /** `fast` (the default) ends sessions in order, `immediate` drops them. Resolves when the server has stopped. */
  stop(mode?: StopMode): Promise<void>
  /** Restarts the server on the same port, with its data. Resolves when it accepts connections. */
  start(): Promise<void>
  /** Crashes the server with SIGKILL. */
  kill(): Promise<void>
}

/** The section `database` of a document. */
export type DatabaseSection =
  | { provider: 'postgres', postgres: { connectionString: string, pool?: Pool } }
  | { provider: 'embedded' }

interface Pool {
  max?: number
  acquireTimeoutMs?: number
  statementTimeoutMs?: number
}

const ownerRole = 'tenantry_owner'

/** A database on the server that all tests share. */
export async function postgresDatabase (
  t: Test,
  { sql = '', empty = false, role = 'superuser' }: DatabaseOptions = {}
): Promise<TestDatabase> {
  const port = await skipWithoutBinaries(t, sharedServerPort)
  const name = `test_${randomBytes(8).toString('hex')}`
  const content = empty ? sql : `${systemSql}\n${sql}`
  const template = content === '' ? 'template1' : await ensureTemplate(port, content, role)
  await run(
    port,
    'postgres',
    `create database ${name} template ${template} strategy file_copy${role === 'owner' ? ` owner ${await ensureOwner(port)}` : ''}`
  )
  t.teardown(() => run(port, 'postgres', `drop database ${name} with (force)`))
  const user = role === 'owner' ? ownerRole : 'postgres'
  return {
    name,
    connectionString: address(port, name, user),
    query: (text, values) => run(port, name, text, values, user),
    admin: (text, values) => run(port, name, text, values),
    async disconnect () {
      const rows = await run(port, 'postgres', 'select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [name])
      return rows.length
    }
  }
}

/** A server for tests that stop, start or crash it; takes about two seconds to start. */
export async function postgresServer (t: Test, options?: ClusterOptions): Promise<TestServer> {
  const server = await skipWithoutBinaries(t, () => startPrivateServer(options))
  t.teardown(() => server.remove())
  return {
    port: server.port,
    connectionString: address(server.port, 'postgres', 'postgres'),
    query: (text, values) => run(server.port, 'postgres', text, values),
    stop: (mode = 'fast') => server.stop(mode),
    start: () => server.start(),
    kill: () => server.stop('kill')
  }
}

/** The default of `acquireTimeoutMs`, 5 s, is too short on a busy machine while many requests wait for a connection. */
export function patientPool (pool: Pool = {}): Pool {
  return { acquireTimeoutMs: 60_000, ...pool }
}

/** The `database` section for a new database. The embedded engine takes a second of CPU time to start. */
export async function postgresSection (t: Test, options: DatabaseOptions = {}): Promise<DatabaseSection> {
  const { connectionString } = await postgresDatabase(t, options)
  return { provider: 'postgres', postgres: { connectionString, pool: patientPool() } }
}

export interface EngineOptions extends DatabaseOptions {
  /** Runs both engines at the same time, for tests that mostly wait (at-once.ts). Default: false. */
  readonly atOnce?: boolean
}

/**
 * Runs the same test on each engine, as subtests `postgres` and `embedded` with separate databases. With
 * TENANTRY_TEST_ENGINE=postgres (or embedded), runs only that one.
 */
export async function forEachEngine (
  t: Test,
  work: (t: Test, database: DatabaseSection) => Promise<unknown>,
  { atOnce: isAtOnce = false, ...options }: EngineOptions = {}
): Promise<void> {
  const only = process.env.TENANTRY_TEST_ENGINE
  const subtests: Record<string, (t: Test) => Promise<unknown>> = {
    postgres: async (t) => await work(t, await postgresSection(t, options)),
    embedded: (t) => work(t, { provider: 'embedded' })
  }
  const wanted = Object.fromEntries(Object.entries(subtests).filter(([name]) => only === undefined || only === name))
  if (isAtOnce) await atOnce(t, wanted)
  else for (const [name, subtest] of Object.entries(wanted)) await t.test(name, subtest)
}

const skipped = new WeakSet<Test>()

async function skipWithoutBinaries<T> (t: Test, start: () => Promise<T>): Promise<T> {
  try {
    return await start()
  } catch (error) {
    if (!(error instanceof BinariesMissing) || process.env.CI === 'true') throw error
    if (!skipped.has(t)) {
      skipped.add(t)
      t.plan(0, error.message)
      // The throw below ends the test's body. The test is already skipped, and must not become a failure.
      t.threw = () => undefined
    }
    throw error
  }
}

function address (port: number, database: string, role: string): string {
  return `postgres://${role}:${role}@127.0.0.1:${port}/${database}`
}

/** Opens a connection for each call, so that the tests' own SQL never holds a connection of the database. */
async function run (port: number, database: string, sql: string, values?: readonly unknown[], role = 'postgres'): Promise<Row[]> {
  const client = new pg.Client({ connectionString: address(port, database, role) })
  await client.connect()
  try {
    const result = await client.query<Row>(sql, values === undefined ? undefined : [...values])
    // With several statements in one text, pg returns one result for each; the rows of the last count.
    const last = Array.isArray(result) ? result.at(-1) : result
    return last?.rows ?? []
  } finally {
    await client.end()
  }
}

async function ensureOwner (port: number): Promise<string> {
  await underLock(port, 'owner', async client => {
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [ownerRole])
    if (rowCount === 0) await client.query(`create role ${ownerRole} login`)
  })
  return ownerRole
}

async function ensureTemplate (port: number, sql: string, role: 'superuser' | 'owner'): Promise<string> {
  const name = `template_${createHash('sha256').update(`${role}\0${sql}`).digest('hex').slice(0, 16)}`
  const owner = role === 'owner' ? await ensureOwner(port) : 'postgres'
  await underLock(port, name, async client => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [name])
    if (rowCount !== 0) return
    // Renamed when it is complete: failing SQL leaves no unfinished template.
    const draft = `draft_${randomBytes(8).toString('hex')}`
    await client.query(`create database ${draft} owner ${owner}`)
    try {
      await run(port, draft, sql, undefined, owner)
      await client.query(`alter database ${draft} rename to ${name}`)
    } catch (error) {
      await client.query(`drop database if exists ${draft} with (force)`)
      throw error
    }
  })
  return name
}

async function underLock (port: number, key: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: address(port, 'postgres', 'postgres') })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock(hashtext($1))', [key])
    await work(client)
  } finally {
    await client.end()
  }
}
