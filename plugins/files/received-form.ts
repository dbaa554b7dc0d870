/** Files from a route's form. They become readable with the route's write, and are removed if the route fails. */
import type { FastifyBaseLogger } from 'fastify'
import type { ReceivedForm } from './declared.js'
import type { Removal } from './removal.js'
import type { StoredFile, Uploader } from './types.js'
import type { FileProperties, Received, Uploads, UploadTenant } from './uploads.js'
import { createHash } from 'node:crypto'
import { withinSession } from '../../lib/database/kysely-dialect.js'
import { isFailure } from '../../lib/errors.js'

/** A file with its bytes in the store. */
export interface ReceivedFile {
  /** The name of its part in the form. */
  readonly part: string
  readonly file: StoredFile
  readonly received: Received
  readonly described: FileProperties
}

export interface ReceivedFormParts {
  readonly uploads: Pick<Uploads, 'complete' | 'discard'>
  readonly removal: Pick<Removal, 'delete'>
  readonly wake: () => void
  readonly log: FastifyBaseLogger
}

export function createReceivedForm (
  { uploads, removal, wake, log }: ReceivedFormParts,
  tenant: UploadTenant,
  by: Uploader,
  received: readonly ReceivedFile[],
  { fields, files }: Pick<ReceivedForm, 'fields' | 'files'>
): ReceivedForm {
  let isComplete = false
  let isKept = false
  const form: ReceivedForm = {
    fields,
    files,
    get digest () {
      return createHash('sha256').update(JSON.stringify(received.map(({ part, file: { name, sha256 } }) => [part, name, sha256])))
        .digest('hex')
    },
    async complete (session) {
      await withinSession(session, async (transaction) => {
        for (const one of received) await uploads.complete(transaction, one.file, one.received, one.described, by)
      })
      isComplete = true
    },
    keep () {
      isKept = true
      wake()
    },
    async end () {
      if (isComplete) form.keep()
      else await form.discard(null)
    },
    async discard (error) {
      if (isKept) return
      for (const { received: upload } of received) {
        await uploads.discard(tenant.id, upload)
        // The route's write may be committed although the connection was lost: the files stay then.
        if (isFailure(error, 'databaseUnavailable')) continue
        await removal.delete(tenant.id, upload.id, by.actor).catch((err: unknown) => {
          log.error({ err, tenant: tenant.id, file: upload.id }, 'a file of a route that failed could not be removed')
        })
      }
    }
  }
  return form
}
