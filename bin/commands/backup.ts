/** `tenantry backup` and `tenantry restore`. */
import type { Call, Command } from '../command.js'
import type { BackupOptions } from '../../lib/backup/backup.js'
import type { Counts } from '../../lib/backup/counts.js'
import type { PostgresOptions } from '../../lib/database/postgres.js'
import { resolve } from 'node:path'
import { UsageError } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

const keyNote = 'secrets are encrypted under SECRETS_MASTER_KEY, which is in no backup: keep it apart from them'

export const backup: Command = {
  summary: 'Dumps the database, and checks that the dump has every row.',
  usage: '[document] --to FOLDER [--pg-bin FOLDER]',
  details: `Runs pg_dump, of the server's version or later, as the role of the document's connection, while servers serve. The
folder gets database.dump and manifest.json, which has the rows of each table at the moment of the dump. Needs a folder
that is new or empty. Of an embedded database, stop the server and copy its folder.

  --to FOLDER       where the backup is written
  --pg-bin FOLDER   where pg_dump and pg_restore are (default: PATH)`,
  options: { to: { type: 'string' }, 'pg-bin': { type: 'string' } },

  async run (call) {
    const { backUp } = await import('../../lib/backup/backup.js')
    const place = folderOf(call, 'to')
    call.print(`${countText(await backUp(await postgresOf(call), place))} backed up to ${place.folder}`)
    call.note(keyNote)
    return 0
  }
}

export const restoreBackup: Command = {
  summary: 'Restores a backup into an empty database, and checks that every row is there.',
  usage: '[document] --from FOLDER [--pg-bin FOLDER]',
  details: `Runs pg_restore in one transaction as the role of the document's connection, which then owns the tables. The
database must have no tables. Roles that the backup grants rights to must exist. Ends with 1 where a table does not have
the rows that it had, naming each.

  --from FOLDER     the folder of the backup
  --pg-bin FOLDER   where pg_restore is (default: PATH)`,
  options: { from: { type: 'string' }, 'pg-bin': { type: 'string' } },

  async run (call) {
    const { restore } = await import('../../lib/backup/restore.js')
    const place = folderOf(call, 'from')
    call.print(`${countText(await restore(await postgresOf(call), place))} restored from ${place.folder}`)
    call.note(keyNote)
    return 0
  }
}

function folderOf (call: Call, option: 'to' | 'from'): BackupOptions {
  const folder = call.text(option)
  if (folder === undefined || folder === '') throw new UsageError(`--${option} is missing: it names the folder of the backup`)
  return { folder: resolve(folder), programs: call.text('pg-bin') }
}

async function postgresOf (call: Call): Promise<PostgresOptions> {
  const { database } = await loadDocument(call.document, call.env)
  if (database.postgres !== undefined) return database.postgres
  const folder = database.embedded?.dbPath
  throw new CommandError(
    folder === undefined
      ? 'the database is in memory, and ends with its server: there is nothing to back up'
      : `the database is embedded: stop the server, then copy the folder ${folder} as a whole, and its file secrets.key to another place; to restore, put the copy in its place`
  )
}

function countText (rows: Counts): string {
  const tables = Object.keys(rows).length
  return `${Object.values(rows).reduce((sum, count) => sum + count, 0)} rows of ${tables} tables`
}
