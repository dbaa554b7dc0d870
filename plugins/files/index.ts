/**
 * Files of tenants: `app.files` and the endpoints under `/files`. The local disk or S3 stores the bytes. Signed URLs need a master
 * key on PostgreSQL.
 */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { checkFiles, checkStorage } from '../../lib/document/rules/sections.js'
import { ignoresCase } from '../../lib/files/folder-names.js'
import { createLocalStore } from '../../lib/files/local.js'
import { defaultFolder, openFileStore } from '../../lib/files/open.js'
import { fileRulesOf } from '../../lib/files/rules.js'
import type { ObjectStore } from '../../lib/files/store.js'
import { trustsTenantHeader } from '../../lib/http/account.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { bytesPerMB } from '../../lib/plans/plans.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { repeatWhenReady } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, membersOf, section, text, whole, withMethods } from '../../lib/plugin/options.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { Files as FilesSchema, type Files as FilesSection, S3, StorageProvider } from '../../lib/schema/files.js'
import { howToMake, type KeyOptions, lacksMasterKey, openKeys } from '../../lib/secrets/master-key.js'
import { plansOf } from '../plans/plans-of.js'
import { createBuckets } from './buckets.js'
import { printedId } from './entity-ids.js'
import { createQuarantine, scannerAddress } from './quarantine.js'
import { createRouteFiles } from './route-files.js'
import { fileRoutes } from './routes.js'
import { createScanStore } from './scan-store.js'
import { createFiles } from './service.js'
import { createSigner, type Signer } from './signed-uploads.js'
import { createFileStore } from './store.js'
import type { Files } from './types.js'

export type { FileDetails, Files, StoredFile, Uploader } from './types.js'

declare module 'fastify' {
  interface FastifyInstance {
    files: Files
  }
}

/** The document's `files`, `storageProvider` and `s3`, and the settings of the master keys. */
export interface FilesOptions extends FilesSection, Omit<KeyOptions, 'folder'>, ClockOption {
  readonly storageProvider?: StorageProvider | undefined
  readonly s3?: S3 | undefined
  /** A store that replaces those of this package. */
  readonly store?: ObjectStore | undefined
  /** Milliseconds over which an upload must bring 1 KB a second, 100 to 600,000. Default: 30,000. */
  readonly slowMs?: number | undefined
  /** Fastify's prefix of the endpoints. Default: none. */
  readonly prefix?: string
}

const everyMs = 60_000 // ms between two sweeps
const closeMs = 1000 // ms for calls of the store to end by themselves
const quickSweepMs = 5000 // ms between sweeps if files are deleted with their rows
const sweepFailed = 'expired files could not be removed; the next sweep tries again'
const scanMs = 5000 // ms between checks for files of other instances, and for the scanner while it is down
const listFailed = 'the files in quarantine could not be listed: retrying'

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
    store: withMethods<ObjectStore>('put', 'get', 'stat', 'copy', 'delete', 'list', 'sign', 'check', 'close'),
    masterKey: text,
    previousKeys: text,
    slowMs: whole(100, 600_000),
    prefix: text,
    now: callback
  },
  async setup (app, options) {
    const {
      enabled = true, maxFileSizeMB, buckets = {}, signedUrlSeconds = 3600, onEntityDelete, scan,
      slowMs = 30_000, prefix, now = Date.now
    } = options
    if (!enabled) return undefined
    withoutFaults((faults) => {
      checkFiles(options, faults)
      if (options.store === undefined) checkStorage(options.storageProvider ?? 'local', options.s3 !== undefined, faults)
    })
    const { db, engine, log, tenants } = app
    const dbFor = engine.kyselyFor
    const objects = options.store ?? await openStore(options, log)
    const emitter = optional(app, 'webhooks')
    const quarantine = scan === undefined
      ? null
      : createQuarantine({ scanner: scannerAddress(scan.clamd), scans: createScanStore(db, dbFor), objects, dbFor, emitter, now, log })
    const service = createFiles({
      objects,
      store: createFileStore(db, dbFor, quarantine !== null, (entity) => printedId(engine.catalogue, entity)),
      quarantine,
      dbFor,
      plans: plansOf(app),
      usage: optional(app, 'usage'),
      emitter,
      tenants,
      buckets: createBuckets(buckets),
      maxBytes: maxFileSizeMB === undefined ? null : Math.floor(maxFileSizeMB * bytesPerMB),
      signer: await openSigner(app, options),
      signedUrlSeconds,
      slowMs,
      stopping: optional(app, 'stopping'),
      trustsHeader: trustsTenantHeader(app),
      prefix: prefixOf(app, prefix),
      now,
      log
    })
    app.decorate('files', service.files)
    const rules = fileRulesOf({ buckets, onEntityDelete })
    if (rules === null) throw new Error('files are enabled without rules')
    app.decorate('routeFiles', createRouteFiles(service, rules))
    tenants.onDelete((tenant) => service.removal.deleteAll(tenant))
    const closing = new AbortController()
    const ends = [
      repeatWhenReady(app, rules.deletedWithRows ? quickSweepMs : everyMs, () => service.removal.sweep(closing.signal), sweepFailed)
    ]
    if (quarantine !== null) ends.push(repeatWhenReady(app, scanMs, quarantine.scanDue, listFailed))
    app.addHook('onClose', async () => {
      closing.abort()
      service.close()
      const ended = Promise.all([...ends.map((end) => end()), quarantine?.close()])
      // A silent store must not delay the stop: its calls end when it is closed.
      await settlesWithin(ended, closeMs)
      await objects.close()
      await ended
    })
    return async (group) => {
      await fileRoutes(group, service)
    }
  }
})

/** The default folder is created with the first upload, since many servers have no files. */
async function openStore ({ storageProvider: provider = 'local', path, s3 }: FilesOptions, log: FastifyBaseLogger): Promise<ObjectStore> {
  if (provider === 'local' && path === undefined) return createLocalStore(defaultFolder, ignoresCase, log)
  return await openFileStore({ provider, path: path ?? defaultFolder, s3 }, log)
}

async function openSigner ({ engine, log }: FastifyInstance, { masterKey, previousKeys }: FilesOptions): Promise<Signer | null> {
  if (lacksMasterKey(engine.kind, { masterKey })) {
    log.warn(`URLs of files cannot be signed: SECRETS_MASTER_KEY is missing. Set it (${howToMake})`)
    return null
  }
  const { keys } = await openKeys(engine.kind, { masterKey, previousKeys, folder: engine.folder })
  return createSigner(keys)
}
