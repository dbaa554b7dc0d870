/** A connection to the database of a backup, with the environment of PostgreSQL's programs. */
import type { PostgresOptions } from '../database/postgres.js'
import type { Client } from 'pg'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { clientOf, programEnvironment } from './address.js'

export interface Session {
  readonly client: Client
  readonly env: NodeJS.ProcessEnv
  /** The major version of the server. */
  readonly server: number
}

/** Connects for the work, and removes the certificates of the programs after it. */
export async function withSession<Result> (options: PostgresOptions, work: (session: Session) => Promise<Result>): Promise<Result> {
  const certificates = await mkdtemp(join(tmpdir(), 'tenantry-backup-'))
  const client = clientOf(options)
  // A lost connection fails the next statement.
  client.on('error', () => {})
  try {
    const env = await programEnvironment(options, certificates)
    await client.connect()
    return await work({ client, env, server: await majorOf(client) })
  } finally {
    await client.end().catch(() => {})
    await rm(certificates, { recursive: true, force: true })
  }
}

async function majorOf (client: Client): Promise<number> {
  const { rows: [row] } = await client.query<{ number: string }>("select current_setting('server_version_num') as number")
  return Math.floor(Number(row?.number) / 10_000)
}
