/**
 * A PostgreSQL server with pgvector, which the server of npm lacks: a package of the system has both. Without it a test skips
 * and says which command installs it (test/run.ts makes that a failure with CI=true).
 */
import type { Test } from 'tap'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { postgresServer } from './postgres.js'

export const installCommand = 'apt-get install --no-install-recommends postgresql postgresql-17-pgvector' // of Debian 13
const packages = '/usr/lib/postgresql'
const shared = '/usr/share/postgresql'

/** The folder of the programs of the newest server that has pgvector; null without one. */
export function pgvectorPrograms (): string | null {
  const versions = existsSync(packages) ? readdirSync(packages).map(Number).sort((one, other) => other - one) : []
  const major = versions.find((version) =>
    existsSync(join(packages, String(version), 'bin', 'initdb')) && existsSync(join(shared, String(version), 'extension', 'vector.control'))
  )
  return major === undefined ? null : join(packages, String(major), 'bin')
}

/** An empty database with pgvector available and not created; the address is a superuser's. */
export async function pgvectorDatabase (t: Test): Promise<{ readonly connectionString: string, readonly owner: string }> {
  const programs = pgvectorPrograms()
  if (programs === null) {
    t.plan(0, `a PostgreSQL server with pgvector is missing: run "${installCommand}" (Debian 13; .ci/run builds it on Debian 12)`)
    // The throw below ends the test's body; the test itself has ended, as skipped, and must not turn into a failure.
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
