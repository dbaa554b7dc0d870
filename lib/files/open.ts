/** Opens the configured file store. */
import type { S3, StorageProvider } from '../schema/files.js'
import { ignoresCase } from './folder-names.js'
import { createLocalStore } from './local.js'
import { createMirroredStore, type MirroredStore } from './mirrored-store.js'
import { createS3Store, type S3Store } from './s3.js'
import type { ObjectStore, StoreLog } from './store.js'

interface FileStoreOptions {
  /** Default: local. */
  readonly provider?: StorageProvider | undefined
  /** The folder of the local disk. */
  readonly path: string
  /** Required by every provider except `local`. */
  readonly s3?: S3 | undefined
}

export const defaultFolder = './files'

/** A store with `restore`, if it consists of two stores, and with `incompleteUploads`, if one of them is S3. */
export type RepairableStore = ObjectStore & Partial<Pick<MirroredStore, 'restore'> & Pick<S3Store, 'incompleteUploads'>>

/** Rejects if the store is not usable. */
export async function openFileStore ({ provider = 'local', path, s3 }: FileStoreOptions, log: StoreLog): Promise<RepairableStore> {
  const store = await createStore(provider, path, s3, log)
  await store.check()
  return store
}

async function createStore (provider: StorageProvider, path: string, s3: S3 | undefined, log: StoreLog): Promise<RepairableStore> {
  const onDisk = () => createLocalStore(path, ignoresCase, log)
  if (provider === 'local') return onDisk()
  if (s3 === undefined) throw new Error(`storageProvider "${provider}" needs the section "s3"`)
  const remote = await createS3Store(s3)
  if (provider !== 'both') return remote
  const mirrored = createMirroredStore(onDisk(), remote, (err, key) => {
    log.warn({ err, key }, 'the copy of a file in S3 is missing or was not deleted: run "tenantry files repair"')
  })
  return { ...mirrored, incompleteUploads: remote.incompleteUploads }
}
