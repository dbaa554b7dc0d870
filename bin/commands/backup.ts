/** `tenantry backup` and `tenantry restore`. */
import { resolve } from 'node:path'
import type { BackupOptions } from '../../lib/backup/backup.js'
import type { Counts } from '../../lib/backup/manifest.js'
import type { PostgresOptions } from '../../lib/database/postgres.js'
import { type Call, type Command, UsageError } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

const keyNote = 'secrets are encrypted with SECRETS_MASTER_KEY, which is not part of a backup: store it in a separate place'
/** See docs/operations/backups.md. */
const restoreNotes = [
  'before you start a server with this database: it runs jobs, webhooks and schedules of the backup again, and deletes expired files in its storage. Beside the original, use "queue": { "workers": 0 } and another storage of files',
  'users, roles, API keys and refresh tokens that ended after the backup are valid again: review them, and change JWT_SECRET'
]

export const backup: Command = {
  summary: 'Back up the database, and check that the backup is complete.',
  usage: '[document] --to FOLDER [--pg-bin FOLDER]',
  details: `Runs pg_dump, with the version of the server or a later one, as the role of the document's connection. Servers can keep
running. Writes database.dump and manifest.json, which has the number of rows of each table. The folder must be new or
empty. To back up an embedded database, stop the server and copy its folder.

  --to FOLDER       the folder for the backup
  --pg-bin FOLDER   the folder of pg_dump and pg_restore (default: PATH)`,
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
  summary: 'Restore a backup into an empty database, and check that it is complete.',
  usage: '[document] --from FOLDER [--pg-bin FOLDER]',
  details: `Runs pg_restore in one transaction as the role of the document's connection, which then owns the tables. The
database must not have tables. Roles with permissions in the backup must exist. Ends with 1 and names the table if a table
lacks rows of the backup.

  --from FOLDER     the folder of the backup
  --pg-bin FOLDER   the folder of pg_restore (default: PATH)`,
  options: { from: { type: 'string' }, 'pg-bin': { type: 'string' } },

  async run (call) {
    const { restore } = await import('../../lib/backup/backup.js')
    const place = folderOf(call, 'from')
    call.print(`${countText(await restore(await postgresOf(call), place))} restored from ${place.folder}`)
    for (const note of [keyNote, ...restoreNotes]) call.note(note)
    return 0
  }
}

function folderOf (call: Call, option: 'to' | 'from'): BackupOptions {
  const folder = call.text(option)
  if (folder === undefined || folder === '') throw new UsageError(`--${option} is missing: expected the folder of the backup`)
  return { folder: resolve(folder), programs: call.text('pg-bin') }
}

async function postgresOf (call: Call): Promise<PostgresOptions> {
  const { database } = await loadDocument(call.document, call.env)
  if (database.postgres !== undefined) return database.postgres
  const folder = database.embedded?.dbPath
  throw new CommandError(
    folder === undefined
      ? 'the database is in memory and is lost when its server stops: there is nothing to back up'
      : `the database is embedded: stop the server, then copy the folder ${folder} as a whole, and its file secrets.key to a separate place; to restore, put the copy in its place`
  )
}

function countText (rows: Counts): string {
  const tables = Object.keys(rows).length
  return `${Object.values(rows).reduce((sum, count) => sum + count, 0)} rows of ${tables} tables`
}
