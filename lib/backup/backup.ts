/** Dumps a database, restores a dump into an empty one, and checks that every table has its rows. */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClientBase } from 'pg'
import type { PostgresOptions } from '../database/postgres.js'
import { messageOf } from '../errors.js'
import { version } from '../version.js'
import {
  beginSnapshot, bypasses, countDumped, countRows, type Counts,
  differences, dumpFile, hashOf, hiddenFault, type Manifest, readManifest, tablesOf, writeManifest
} from './manifest.js'
import { movePositions } from './positions.js'
import { findProgram, runProgram } from './programs.js'
import { withSession } from './session.js'

export interface BackupOptions {
  /** The folder of the backup; created, and refused if it has files. */
  readonly folder: string
  /** The folder of PostgreSQL's programs. Default: PATH. */
  readonly programs: string | undefined
}

/** The dump and the counts show one moment, while servers serve. The manifest comes last: a folder without it has no complete backup. */
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
      const hidden = await hiddenFault(client)
      if (hidden !== null) throw new Error(hidden)
      await beginSnapshot(client)
      const { rows: [snapshot] } = await client.query<{ id: string }>('select pg_export_snapshot() as id')
      const security = await bypasses(client) ? [] : ['--enable-row-security']
      // The program would let every user of the machine read it.
      await writeFile(file, '', { mode: 0o600 })
      const words = ['--format=custom', `--file=${file}`, `--snapshot=${snapshot?.id}`, '--no-password', ...security]
      const abort = new AbortController()
      const dumped = runProgram(dump, words, env, { abort: abort.signal })
      const [rows] = await Promise.all([countRows(client), dumped]).catch(async (error: unknown) => {
        abort.abort()
        await dumped.catch(() => {})
        throw error
      })
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
    const fault = await faultOfRows(client, manifest)
    try {
      await movePositions(client)
    } catch (error) {
      if (fault === null) throw error
      throw new Error(`${fault}\nthe positions of realtime are not moved, so that clients can miss changes: ${messageOf(error)}`)
    }
    if (fault !== null) throw new Error(fault)
    return manifest.rows
  })
}

/** The fault of the restored rows, if their numbers differ from the backup's or cannot be counted. */
async function faultOfRows (client: ClientBase, manifest: Manifest): Promise<string | null> {
  const hidden = await hiddenFault(client)
  if (hidden !== null) return `the database is restored, but its rows are not counted: ${hidden}`
  await beginSnapshot(client)
  const wrong = differences(manifest.rows, await countRows(client), 'in the database')
  await client.query('rollback')
  return wrong.length === 0 ? null : `the database does not have the rows of the backup:\n${wrong.join('\n')}`
}
