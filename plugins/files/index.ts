/**
 * Files of tenants: `app.files` and the endpoints under `/files`. Bytes are kept on the local disk or in S3. Without a
 * master key on PostgreSQL, URLs cannot be signed.
 */
import type {} from '../database/index.js'
import type {} from '../auth/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../usage/index.js'
import type {} from '../webhooks/webhooks.js'
import type { FastifyInstance } from 'fastify'
import type { KeyOptions } from '../../lib/secrets/open-keys.js'
import type { ObjectStore } from '../../lib/files/store.js'
import type { Files } from './types.js'
import { Files as FilesSchema, S3, StorageProvider, type Files as FilesSection } from '../../lib/config/schema/files.js'
import { createLocalStore } from '../../lib/files/local.js'
import { openFileStore } from '../../lib/files/open.js'
import { bytesPerMB } from '../../lib/plans.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { optional } from '../../lib/plugin/optional.js'
import { callback, membersOf, record, section, text, whole } from '../../lib/plugin/options.js'
import { openKeys } from '../../lib/secrets/open-keys.js'
import { plansOf } from '../plans/plans-of.js'
import { createBuckets } from './buckets.js'
import { fileRoutes } from './routes.js'
import { createFiles } from './service.js'
import { createSigner, type Signer } from './signature.js'
import { createFileStore } from './store.js'
import { sweepRegularly } from './sweep.js'

export type { FileDetails, Files, StoredFile, Uploader } from './types.js'

declare module 'fastify' {
  interface FastifyInstance {
    files: Files
  }
}

/** The document's `files`, `storageProvider` and `s3`, and the settings of the master keys. */
export interface FilesOptions extends FilesSection, Omit<KeyOptions, 'folder'> {
  readonly storageProvider?: StorageProvider | undefined
  readonly s3?: S3 | undefined
  /** A store in place of those of this package. */
  readonly store?: ObjectStore | undefined
  /** Milliseconds over which an upload must bring 1 KB a second, 100 to 600,000. Default: 30,000. */
  readonly slowMs?: number | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

const defaultPath = './files'

export default definePlugin<FilesOptions>({
  name: 'files',
  dependencies: ['database', 'tenancy'],
  optional: ['usage', 'webhooks'],
  after: ['plans'],
  routeDependencies: ['auth'],
  options: {
    ...membersOf(FilesSchema),
    storageProvider: section(StorageProvider),
    s3: section(S3),
    store: record,
    masterKey: text,
    previousKeys: text,
    slowMs: whole(100, 600_000),
    now: callback
  },
  async setup (app, options) {
    const { enabled = true, path, maxFileSizeMB, buckets = {}, signedUrlSeconds = 3600, slowMs = 30_000, now = Date.now } = options
    if (!enabled) return undefined
    const { storageProvider = 'local', s3, store } = options
    const { db, engine, log, tenants } = app
    const dbFor = (tenant: string) => engine.kyselyFor(tenant)
    const objects = store ?? await openStore(app, storageProvider, path, s3)
    const service = createFiles({
      objects,
      store: createFileStore(db, dbFor),
      dbFor,
      plans: plansOf(app),
      usage: optional(app, 'usage'),
      emitter: optional(app, 'webhooks'),
      tenants,
      buckets: createBuckets(buckets),
      maxBytes: maxFileSizeMB === undefined ? null : Math.floor(maxFileSizeMB * bytesPerMB),
      signer: await openSigner(app, options),
      signedUrlSeconds,
      now,
      log
    })
    const { put, get, open, list, remove } = service
    app.decorate('files', { put, get, open, list, remove })
    tenants.onDelete((tenant) => service.removal.deleteAll(tenant))
    sweepRegularly(app, () => service.removal.sweep())
    app.addHook('onClose', async () => {
      service.close()
      await objects.close()
    })
    return async (group) => { await fileRoutes(group, service, slowMs) }
  }
})

/** The folder that nobody named is made with the first upload, since many servers have none. */
async function openStore (
  { log }: FastifyInstance, provider: StorageProvider, path: string | undefined, s3: S3 | undefined
): Promise<ObjectStore> {
  if (provider === 'local' && path === undefined) return createLocalStore(defaultPath)
  return await openFileStore({ provider, path: path ?? defaultPath, s3 }, log)
}

async function openSigner ({ engine, log }: FastifyInstance, { masterKey, previousKeys }: Omit<KeyOptions, 'folder'>): Promise<Signer | null> {
  if (engine.kind === 'postgres' && (masterKey ?? '') === '') {
    log.warn('URLs of files cannot be signed: SECRETS_MASTER_KEY is missing')
    return null
  }
  const { keys } = await openKeys(engine.kind, { masterKey, previousKeys, folder: engine.folder })
  return createSigner(keys)
}
