/** The store of files that the document names. */
import type { FastifyBaseLogger } from 'fastify'
import type { ObjectStore } from './store.js'
import { createMirroredStore } from './both.js'
import { createLocalStore } from './local.js'
import { createS3Store, type S3Options } from './s3.js'

/** `supabase` and `r2` are services that speak S3. `both`: the local disk and S3. */
export type StorageProvider = 'local' | 's3' | 'supabase' | 'r2' | 'both'

export interface FileStoreOptions {
  /** Default: local. */
  readonly provider?: StorageProvider | undefined
  /** The folder of the local disk. */
  readonly path: string
  /** Required by every provider but `local`. */
  readonly s3?: S3Options | undefined
}

/** Rejects if the store cannot be used. */
export async function openFileStore ({ provider = 'local', path, s3 }: FileStoreOptions, log: Pick<FastifyBaseLogger, 'warn'>): Promise<ObjectStore> {
  const store = await createStore(provider, path, s3, log)
  await store.check()
  return store
}

async function createStore (provider: StorageProvider, path: string, s3: S3Options | undefined, log: Pick<FastifyBaseLogger, 'warn'>): Promise<ObjectStore> {
  if (provider === 'local') return createLocalStore(path)
  if (s3 === undefined) throw new Error(`storageProvider "${provider}" needs the section "s3"`)
  const remote = await createS3Store(s3)
  if (provider !== 'both') return remote
  return createMirroredStore(createLocalStore(path), remote, (err, key) => {
    log.warn({ err, key }, 'the copy of a file in S3 is missing or was not deleted: run "tenantry files repair"')
  })
}
