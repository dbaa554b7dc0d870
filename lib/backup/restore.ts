/** Restores a backup into an empty database, and checks that every table has its rows. */
import type { PostgresOptions } from '../database/postgres.js'
import type { BackupOptions } from './backup.js'
import { join } from 'node:path'
import { beginSnapshot, countRows, differences, refuseHidden, tablesOf, type Counts } from './counts.js'
import { dumpFile, readManifest } from './manifest.js'
import { findProgram, runProgram } from './programs.js'
import { withSession } from './session.js'

/** The dump is restored in one transaction: a failure leaves the database empty. */
export async function restore (options: PostgresOptions, { folder, programs }: BackupOptions): Promise<Counts> {
  const program = await findProgram('pg_restore', programs)
  const manifest = await readManifest(folder)
  if (program.major < manifest.pgDump) {
    throw new Error(
      `pg_restore ${program.major} cannot read a dump of pg_dump ${manifest.pgDump}: install the client programs of version ${manifest.pgDump} or later, or set their folder with --pg-bin`
    )
  }
  return withSession(options, async ({ client, env, server }) => {
    if (server < manifest.server) {
      throw new Error(
        `the backup is from PostgreSQL ${manifest.server}, but the database is PostgreSQL ${server}: restore it into version ${manifest.server} or later`
      )
    }
    const [first, ...more] = await tablesOf(client)
    if (first !== undefined) {
      throw new Error(
        `the database is not empty, it has ${first}${more.length > 0 ? ` and ${more.length} more tables` : ''}: restore into a new database`
      )
    }
    const words = ['--single-transaction', '--exit-on-error', '--no-owner', '--no-password', '--enable-row-security']
    await runProgram(program, [...words, `--dbname=${env.PGDATABASE ?? ''}`, join(folder, dumpFile)], env)
    await refuseHidden(client)
    await beginSnapshot(client)
    const wrong = differences(manifest.rows, await countRows(client), 'in the database')
    if (wrong.length > 0) throw new Error(`the database does not have the rows of the backup:\n${wrong.join('\n')}`)
    return manifest.rows
  })
}
