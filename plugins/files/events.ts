/** Records changes of files: their audit entries and their webhook events. */
import { type Actor, type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Writer } from './store.js'
import type { StoredFile, Uploader } from './types.js'

type Emitter = Pick<Webhooks, 'emit'> | null

export async function writeCreated (transaction: Writer, emitter: Emitter, file: StoredFile, { actor }: Uploader): Promise<void> {
  await audit(transaction, file, { action: 'file.create', actor, at: file.createdAt })
  // A file in quarantine has no event until it is readable.
  if (file.scan === undefined) await emitFile(transaction, emitter, file, 'file.created', file.createdAt)
}

/** @param actor null if the server deletes the file by itself */
export async function writeDeleted (transaction: Writer, emitter: Emitter, file: StoredFile, actor: Actor | null, at: Date): Promise<void> {
  await audit(transaction, file, { action: 'file.delete', actor: actor ?? noActor, at })
  await emitFile(transaction, emitter, file, 'file.deleted', at)
}

export async function writeInfected (transaction: Writer, file: StoredFile, signature: string, at: Date): Promise<void> {
  await audit(transaction, file, { action: 'file.infected', actor: noActor, at }, { signature })
}

async function audit (
  transaction: Writer,
  { id, tenant, bucket, name, contentType, size }: StoredFile,
  entry: Pick<AuditEntry, 'action' | 'actor' | 'at'>,
  further?: object
): Promise<void> {
  await writeAudit(transaction, { ...entry, tenant, target: id, details: { bucket, name, contentType, size, ...further } })
}

export async function emitFile (
  transaction: Writer,
  emitter: Emitter,
  file: StoredFile,
  type: 'file.created' | 'file.deleted',
  at: Date
): Promise<void> {
  await emitter?.emit(transaction, { tenant: file.tenant, type, subject: `files:${file.id}`, data: shownFile(file), at })
}

/** A file as callers see it, without the path of its download. */
export function shownFile (file: StoredFile) {
  const { tenant, metadata, createdAt, ...shown } = file
  return { ...shown, key: `${tenant}/${file.id}`, metadata: { ...metadata }, createdAt: createdAt.toISOString() }
}
