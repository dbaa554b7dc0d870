/** Dumps a database, and checks that the dump has every table's rows. */
import type { PostgresOptions } from '../database/postgres.js'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { version } from '../version.js'
import { beginSnapshot, bypasses, countDumped, countRows, differences, refuseHidden, type Counts } from './counts.js'
import { dumpFile, hashOf, writeManifest } from './manifest.js'
import { findProgram, runProgram } from './programs.js'
import { withSession } from './session.js'

export interface BackupOptions {
  /** The folder of the backup; created, and refused if it has files. */
  readonly folder: string
  /** The folder of PostgreSQL's programs. Default: PATH. */
  readonly programs: string | undefined
}

/**
 * The dump and the counts are of one moment, while servers serve. The manifest is written last: a folder without it has no complete backup.
 */
export async function backUp (options: PostgresOptions, { folder, programs }: BackupOptions): Promise<Counts> {
  const [dump, restore] = [await findProgram('pg_dump', programs), await findProgram('pg_restore', programs)]
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if ((await readdir(folder)).length > 0) throw new Error(`${folder} is not empty: choose a new folder`)
  const file = join(folder, dumpFile)
  return withSession(options, async ({ client, env, server }) => {
    try {
      if (dump.major < server) {
        throw new Error(
          `pg_dump ${dump.major} cannot back up PostgreSQL ${server}: install the client programs of version ${server} or later, or set their folder with --pg-bin`
        )
      }
      await refuseHidden(client)
      await beginSnapshot(client)
      const { rows: [snapshot] } = await client.query<{ id: string }>('select pg_export_snapshot() as id')
      const security = await bypasses(client) ? [] : ['--enable-row-security']
      const words = ['--format=custom', `--file=${file}`, `--snapshot=${snapshot?.id}`, '--no-password', ...security]
      const [rows] = await Promise.all([countRows(client), runProgram(dump, words, env)])
      const wrong = differences(rows, await countDumped(restore, file, env), 'in the dump')
      if (wrong.length > 0) throw new Error(`the dump is not complete:\n${wrong.join('\n')}`)
      await writeManifest(folder, {
        version,
        createdAt: new Date().toISOString(),
        server,
        pgDump: dump.major,
        sha256: await hashOf(file),
        rows
      })
      return rows
    } catch (error) {
      await rm(file, { force: true })
      throw error
    }
  })
}
