/** Records changes of files: their audit entries and their webhook events. */
import { type Actor, noActor, writeAudit } from '../../lib/database/audit.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Writer } from './store.js'
import type { StoredFile, Uploader } from './types.js'

type Emitter = Pick<Webhooks, 'emit'> | null

export async function writeCreated (transaction: Writer, emitter: Emitter, file: StoredFile, { actor }: Uploader): Promise<void> {
  // A file in quarantine has no event until it is readable.
  await write(transaction, file.scan === undefined ? emitter : null, file, 'create', actor, file.createdAt)
}

/** @param actor null if the server deletes the file by itself */
export async function writeDeleted (transaction: Writer, emitter: Emitter, file: StoredFile, actor: Actor | null, at: Date): Promise<void> {
  await write(transaction, emitter, file, 'delete', actor ?? noActor, at)
}

/** Records that a file in quarantine was found clean. */
export async function writeReleased (transaction: Writer, emitter: Emitter, file: StoredFile, at: Date): Promise<void> {
  await emit(transaction, emitter, file, 'created', at)
}

export async function writeInfected (transaction: Writer, file: StoredFile, signature: string, at: Date): Promise<void> {
  const { id, tenant, bucket, name, contentType, size } = file
  await writeAudit(transaction, {
    tenant,
    action: 'file.infected',
    actor: noActor,
    target: id,
    details: { bucket, name, contentType, size, signature },
    at
  })
}

async function write (
  transaction: Writer,
  emitter: Emitter,
  file: StoredFile,
  change: 'create' | 'delete',
  actor: Actor,
  at: Date
): Promise<void> {
  const { id, tenant, bucket, name, contentType, size } = file
  await writeAudit(transaction, { tenant, action: `file.${change}`, actor, target: id, details: { bucket, name, contentType, size }, at })
  await emit(transaction, emitter, file, `${change}d`, at)
}

async function emit (transaction: Writer, emitter: Emitter, file: StoredFile, change: 'created' | 'deleted', at: Date): Promise<void> {
  await emitter?.emit(transaction, { tenant: file.tenant, type: `file.${change}`, subject: `files:${file.id}`, data: shownFile(file), at })
}

/** A file as callers see it, without the path of its download. */
export function shownFile (file: StoredFile) {
  const { tenant, metadata, createdAt, ...shown } = file
  return { ...shown, key: `${tenant}/${file.id}`, metadata: { ...metadata }, createdAt: createdAt.toISOString() }
}
