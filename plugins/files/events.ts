/** Records changes of files: their audit entries and their webhook events. */
import { type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Writer } from './store.js'
import type { StoredFile, Uploader } from './types.js'

type Emitter = Pick<Webhooks, 'emit'> | null

export async function writeCreated (transaction: Writer, emitter: Emitter, file: StoredFile, { actor }: Uploader): Promise<void> {
  await audit(transaction, file, { action: 'file.create', actor, at: file.createdAt })
  // A file in quarantine has no event until it is readable.
  if (file.scan === undefined) await emitFile(transaction, emitter, file, 'file.created', file.createdAt)
}

/** @param by null if the server deletes the file by itself */
export async function writeDeleted (
  transaction: Writer,
  emitter: Emitter,
  file: StoredFile,
  by: Pick<Uploader, 'actor' | 'depth'> | null,
  at: Date
): Promise<void> {
  await audit(transaction, file, { action: 'file.delete', actor: by?.actor ?? noActor, at })
  // A file of a row that a webhook deleted is deleted by the sweep, which knows only the depth of the file.
  await emitFile(transaction, emitter, { ...file, depth: Math.max(file.depth, by?.depth ?? 0) }, 'file.deleted', at)
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
  const { depth } = file
  await emitter?.emit(transaction, { tenant: file.tenant, type, subject: `files:${file.id}`, data: shownFile(file), at, depth })
}

/** A file as callers see it, without the path of its download. */
export function shownFile (file: StoredFile) {
  const { tenant, metadata, createdAt, depth: _depth, ...shown } = file
  return { ...shown, key: `${tenant}/${file.id}`, metadata: { ...metadata }, createdAt: createdAt.toISOString() }
}
