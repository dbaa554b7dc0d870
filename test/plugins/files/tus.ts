/** Requests of resumable uploads, and the removal of their parts. */
import type { FastifyInstance } from 'fastify'
import type { ObjectStore } from '../../../lib/files/store.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { createRemoval } from '../../../plugins/files/removal.js'
import { createFileStore } from '../../../plugins/files/store.js'
import type { Reply } from '../../http/caller.js'
import type { User } from './app.js'

export const version = { 'tus-resumable': '1.0.0' }
export const octets = { ...version, 'content-type': 'application/offset+octet-stream' }
const encoded = (metadata: Record<string, string>): string =>
  Object.entries(metadata).map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`).join(',')
export const announce = (user: User, size: number, metadata: Record<string, string> = { filename: 'a.txt', filetype: 'text/plain' }) =>
  user.ask('POST /files/resumable', { headers: { ...version, 'upload-length': String(size), 'upload-metadata': encoded(metadata) } })
export const send = (user: User, url: string, offset: number, body: string | Buffer) =>
  user.ask(`PATCH ${url}`, { headers: { ...octets, 'upload-offset': String(offset) }, body })
export const offsetOf = async (user: User, url: string): Promise<string> =>
  String((await user.ask(`HEAD ${url}`, { headers: version })).headers['upload-offset'])
export const urlOf = ({ headers }: Reply): string => String(headers['location'])

/** The removal of files, and the parts of uploads, on a store of objects. */
export function removalOf (app: FastifyInstance, objects: ObjectStore, now: () => number = Date.now) {
  const dbFor = (tenant: string) => app.engine.kyselyFor(tenantRef(tenant))
  const parts = createFileParts(objects, dbFor)
  const removal = createRemoval({
    objects,
    store: createFileStore(app.db, dbFor),
    parts,
    transforms: { deleteObjects: async () => {} },
    dbFor,
    usage: () => app.usage,
    emitter: () => null,
    now,
    log: app.log
  })
  return { parts, removal }
}
