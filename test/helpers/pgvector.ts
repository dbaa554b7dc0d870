/**
 * A PostgreSQL server with pgvector, from a system package, since the server from npm lacks pgvector. If it is missing, the test skips
 * and names the command that installs it (test/run.ts makes that a failure with CI=true).
 */
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { postgresServer } from './postgres.js'

export const installCommand = 'apt-get install --no-install-recommends postgresql postgresql-17-pgvector' // of Debian 13
const packages = '/usr/lib/postgresql'
const shared = '/usr/share/postgresql'

/** The folder with the programs of the newest server that has pgvector; null if there is none. */
export function pgvectorPrograms (): string | null {
  const versions = existsSync(packages) ? readdirSync(packages).map(Number).sort((one, other) => other - one) : []
  const major = versions.find((version) =>
    existsSync(join(packages, String(version), 'bin', 'initdb')) && existsSync(join(shared, String(version), 'extension', 'vector.control'))
  )
  return major === undefined ? null : join(packages, String(major), 'bin')
}

/** An empty database in which pgvector is available but not created. The address is a superuser's. */
export async function pgvectorDatabase (t: Test): Promise<{ readonly connectionString: string, readonly owner: string }> {
  const programs = pgvectorPrograms()
  if (programs === null) {
    t.plan(0, `a PostgreSQL server with pgvector is missing: run "${installCommand}" (Debian 13; .ci/run builds it on Debian 12)`)
    // The throw below ends the test's body. The test is already skipped, and must not become a failure.
    t.threw = () => undefined
    throw new Error('no pgvector')
  }
  const server = await postgresServer(t, { programs })
  const name = `db_${randomBytes(4).toString('hex')}`
  await server.query('create role owner login')
  await server.query(`create database ${name} owner owner`)
  const address = (role: string) => `postgres://${role}:a-password@127.0.0.1:${server.port}/${name}`
  return { connectionString: address('postgres'), owner: address('owner') }
}
