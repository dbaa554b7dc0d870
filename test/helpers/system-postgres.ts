/**
 * A PostgreSQL server from a system package, with `pg_dump` and `pg_restore`, which the server from npm lacks. If it is missing, the
 * test skips and names the command that installs it (test/run.ts makes that a failure with CI=true).
 */
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { postgresServer, type TestServer } from './postgres.js'

const installCommand = 'apt-get install --no-install-recommends postgresql'
const packages = '/usr/lib/postgresql'

export interface SystemPostgres {
  readonly server: TestServer
  /** The folder of the server's programs. */
  readonly programs: string
  /** The major version. */
  readonly major: number
  /** Creates an empty database. Its owner is an ordinary role, which obeys policies. */
  makeDatabase(): Promise<{ readonly name: string, readonly connectionString: string }>
}

export async function systemPostgres (t: Test): Promise<SystemPostgres> {
  const versions = existsSync(packages) ? readdirSync(packages).map(Number).sort((one, other) => other - one) : []
  const major = versions.find((version) =>
    ['initdb', 'postgres', 'pg_dump', 'pg_restore'].every((program) => existsSync(join(packages, String(version), 'bin', program)))
  )
  if (major === undefined) {
    t.plan(0, `PostgreSQL's server and client programs are missing: run "${installCommand}"`)
    // The throw below ends the test's body. The test is already skipped, and must not become a failure.
    t.threw = () => undefined
    throw new Error('no programs')
  }
  const programs = join(packages, String(major), 'bin')
  const server = await postgresServer(t, { programs })
  await server.query('create role app login')
  return {
    server,
    programs,
    major,
    async makeDatabase () {
      const name = `db_${randomBytes(4).toString('hex')}`
      await server.query(`create database ${name} owner app`)
      return { name, connectionString: `postgres://app:a-password@127.0.0.1:${server.port}/${name}` }
    }
  }
}

/** Runs SQL in a database, as the role of the address or as a superuser. */
export async function runIn (connectionString: string, text: string, role?: 'postgres'): Promise<Record<string, unknown>[]> {
  const address = new URL(connectionString)
  if (role !== undefined) address.username = role
  const client = new pg.Client({ connectionString: address.href })
  await client.connect()
  try {
    const result = await client.query<Record<string, unknown>>(text)
    return (Array.isArray(result) ? result.at(-1) : result)?.rows ?? []
  } finally {
    await client.end()
  }
}
