/** What is written with a file: its entry in the audit log, and its event for webhooks. */
import type { StoredFile, Uploader } from './types.js'
import type { Writer } from './store.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import { noActor, writeAudit, type Actor } from '../../lib/audit.js'

type Emitter = Pick<Webhooks, 'emit'> | null

export async function writeCreated (transaction: Writer, emitter: Emitter, file: StoredFile, { actor }: Uploader): Promise<void> {
  await write(transaction, emitter, file, 'create', actor, file.createdAt)
}

/** @param actor null where the server deletes it by itself */
export async function writeDeleted (transaction: Writer, emitter: Emitter, file: StoredFile, actor: Actor | null, at: Date): Promise<void> {
  await write(transaction, emitter, file, 'delete', actor ?? noActor, at)
}

async function write (
  transaction: Writer, emitter: Emitter, file: StoredFile, change: 'create' | 'delete', actor: Actor, at: Date
): Promise<void> {
  const { id, tenant, bucket, name, contentType, size } = file
  await writeAudit(transaction, { tenant, action: `file.${change}`, actor, target: id, details: { bucket, name, contentType, size }, at })
  await emitter?.emit(transaction, { tenant, type: `file.${change}d`, subject: `files:${id}`, data: shownFile(file), at })
}

/** A file as callers see it, without the path of its download. */
export function shownFile (file: StoredFile) {
  const { tenant, metadata, createdAt, ...shown } = file
  return { ...shown, key: `${tenant}/${file.id}`, metadata: { ...metadata }, createdAt: createdAt.toISOString() }
}
