/** `tenantry files repair`: restores missing copies of files, and deletes objects without a file. */
import { isFailure, messageOf } from '../../lib/errors.js'
import type { Command } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

const maxNamed = 20 // files listed of each kind

export const repairFilesCommand: Command = {
  summary: 'Restore missing copies of files, and delete objects without a file.',
  usage: '[document] [--delete-all]',
  details: `With storageProvider "both", copies each file that is missing on the disk or in S3 from the other storage. With every
provider, deletes objects that are older than a day and do not belong to a file, and in S3 aborts incomplete uploads that
are older than a day. Servers can keep running; stop the server of an embedded database first. The command can be
repeated. Prints the numbers of complete and copied files; ends with 1 and names the files if files are missing in every
storage or could not be copied.

  --delete-all  delete objects without a file even if they are more than a tenth of the objects: the storage of another
                database would lose all its files`,
  options: { 'delete-all': { type: 'boolean' } },

  async run (call) {
    const { database, files, storageProvider, s3 } = await loadDocument(call.document, call.env)
    const [{ createEngine }, { defaultFolder, openFileStore }, { repairFiles }] = await Promise.all([
      import('../../lib/database/index.js'),
      import('../../lib/files/open.js'),
      import('../../lib/files/repair.js')
    ])
    const log = { warn: (_details: object, text: string) => call.note(text) }
    const store = await openFileStore({ provider: storageProvider, path: files.path ?? defaultFolder, s3 }, log)
    const engine = await createEngine({ ...database, migrate: 'manual' })
    try {
      const deleteAll = call.flag('delete-all')
      const { complete, copied, deleted, aborted, unlisted, refused, lost, failed } = await repairFiles(engine.kysely, store, { deleteAll })
      const uploads = aborted === 0 ? '' : `, ${counted(aborted, 'incomplete upload')} aborted`
      call.print(
        `${counted(complete, 'file')} complete, ${copied} copied, ${lost.length} lost; ${counted(deleted, 'object')} without a file deleted${uploads}`
      )
      for (const key of lost.slice(0, maxNamed)) {
        call.note(`the file ${key} is missing in every storage: restore it from a backup, or delete it`)
      }
      for (const { key, error } of failed.slice(0, maxNamed)) {
        call.note(`the file ${key} could not be repaired: ${messageOf(error)}`)
      }
      const unnamed = Math.max(lost.length - maxNamed, 0) + Math.max(failed.length - maxNamed, 0)
      if (unnamed > 0) call.note(`and ${unnamed} more`)
      if (unlisted !== null) {
        const { error } = unlisted
        const reason = error instanceof Error && error.cause !== undefined ? error.cause : error
        call.note(`incomplete uploads could not be listed (${messageOf(reason)}): set a lifecycle rule that aborts them`)
      }
      if (refused !== null) {
        call.note(
          `${refused.orphans} of ${refused.objects} objects have no file in this database, which is more than a tenth: none is deleted. If the storage belongs to this database alone, run the command with --delete-all`
        )
      }
      return lost.length > 0 || failed.length > 0 || refused !== null ? 1 : 0
    } catch (error) {
      throw isFailure(error, 'schemaChanged') ? new CommandError('the database is not migrated: run "tenantry migrate"') : error
    } finally {
      await engine.close()
      await store.close()
    }
  }
}

function counted (count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
