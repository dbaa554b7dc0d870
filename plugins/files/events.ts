/** Records changes of files: their audit entries and their webhook events. */
import { type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { StoredFile, Uploader } from './types.js'

type Emitter = Pick<Webhooks, 'emit'> | null

export async function writeCreated (writer: SystemTransaction, emitter: Emitter, file: StoredFile, { actor }: Uploader): Promise<void> {
  await audit(writer, file, { action: 'file.create', actor, at: file.createdAt })
  // A file in quarantine has no event until it is readable.
  if (file.scan === undefined) await emitFile(writer, emitter, file, 'file.created', file.createdAt)
}

/** @param by null if the server deletes the file by itself */
export async function writeDeleted (
  writer: SystemTransaction,
  emitter: Emitter,
  file: StoredFile,
  by: Pick<Uploader, 'actor' | 'depth'> | null,
  at: Date
): Promise<void> {
  await audit(writer, file, { action: 'file.delete', actor: by?.actor ?? noActor, at })
  // A file of a row that a webhook deleted is deleted by the sweep, which knows only the depth of the file.
  await emitFile(writer, emitter, { ...file, depth: Math.max(file.depth, by?.depth ?? 0) }, 'file.deleted', at)
}

export async function writeInfected (writer: SystemTransaction, file: StoredFile, signature: string, at: Date): Promise<void> {
  await audit(writer, file, { action: 'file.infected', actor: noActor, at }, { signature })
}

async function audit (
  writer: SystemTransaction,
  { id, tenant, bucket, name, contentType, size }: StoredFile,
  entry: Pick<AuditEntry, 'action' | 'actor' | 'at'>,
  further?: object
): Promise<void> {
  await writeAudit(writer, { ...entry, tenant, target: id, details: { bucket, name, contentType, size, ...further } })
}

export async function emitFile (
  writer: SystemTransaction,
  emitter: Emitter,
  file: StoredFile,
  type: 'file.created' | 'file.deleted',
  at: Date
): Promise<void> {
  const { depth } = file
  await emitter?.emit(writer, { tenant: file.tenant, type, subject: `files:${file.id}`, data: shownFile(file), at, depth })
}

/** A file as callers see it, without the path of its download. */
export function shownFile (file: StoredFile) {
  const { tenant, metadata, createdAt, depth: _depth, ...shown } = file
  return { ...shown, key: `${tenant}/${file.id}`, metadata: { ...metadata }, createdAt: createdAt.toISOString() }
}
