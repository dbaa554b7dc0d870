/**
 * Stores files on the local disk: one folder, with a subfolder for each tenant. Bytes are written outside the objects' folders
 * and renamed when they are complete and flushed. A killed process therefore leaves no partial object under its key.
 */
import { randomUUID } from 'node:crypto'
import { constants, type Dirent } from 'node:fs'
import { access, copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { codeOf, failure } from '../errors.js'
import { isTenantId } from '../identity/tenant-ref.js'
import { dayMs, hourMs } from '../time/spans.js'
import { FileWriter } from './file-writer.js'
import { folderOf, ignoresCase, incoming, tenantOf } from './folder-names.js'
import { renameFolder } from './rename-folders.js'
import { checkKey, isObjectName, type ObjectStore, type StoredObject, type StoreLog } from './store.js'
import { storedBytes } from './stored-bytes.js'

const pageSize = 1000

/**
 * Creates the `folder` if it is missing. Several processes may use it.
 *
 * @param asksDisk  whether the disk ignores case; asked until the answer is not null
 * @param log       for files of an earlier version that stay in another folder
 */
export function createLocalStore (folder: string, asksDisk: typeof ignoresCase = ignoresCase, log: StoreLog | null = null): ObjectStore {
  let isFolded: boolean | null = null
  let renaming: Promise<void> | null = null
  let cleaned = -Infinity
  /** Tenants whose folder has the name of an earlier version. */
  const oldNamed = new Set<string>()

  async function isFoldedDisk (): Promise<boolean> {
    if (isFolded === null) {
      const answer = await onDisk(asksDisk(folder))
      if (answer === true) {
        await (renaming ??= renameFolders().catch((error: unknown) => {
          renaming = null
          throw error
        }))
      }
      isFolded = answer
    }
    return isFolded === true
  }

  /** The failure of one tenant's folder does not stop the others. */
  async function renameFolders (): Promise<void> {
    const tenants = await namesIn(folder, (entry) => entry.isDirectory() && isTenantId(entry.name) && folderOf(entry.name) !== entry.name)
    for (const tenant of tenants) {
      try {
        await renameOne(tenant)
      } catch (err) {
        oldNamed.add(tenant)
        log?.warn({ err, tenant }, 'the folder of a tenant cannot be renamed: requests for its files fail until it can be')
      }
    }
  }

  async function renameOne (tenant: string): Promise<void> {
    const kept = await renameFolder(folder, tenant)
    oldNamed.delete(tenant)
    if (kept === null) return
    const details = { tenant, ...kept }
    log?.warn(details, 'files of a tenant stay in an old folder, because its new one has files with their names: compare and delete them')
  }

  async function folderFor (tenant: string): Promise<string> {
    if (!await isFoldedDisk()) return join(folder, tenant)
    // The old folder is also that of the tenant whose id is equal but for case.
    const old = [...oldNamed].find((name) => name.toLowerCase() === tenant.toLowerCase())
    if (old !== undefined) await onDisk(renameOne(old))
    return join(folder, folderOf(tenant))
  }

  async function pathOf (key: string): Promise<string> {
    const [tenant = '', name = ''] = checkKey(key).split('/')
    return join(await folderFor(tenant), name)
  }

  async function tenantsWith (prefix: string): Promise<string[]> {
    const names = await namesIn(folder, (entry) => entry.isDirectory() && entry.name !== incoming)
    const tenants = await isFoldedDisk() ? names.flatMap((name) => tenantOf(name) ?? []) : names
    return tenants.filter((tenant) => tenant.startsWith(prefix))
  }

  /** Cleans up occasionally, during an upload: a server may run long after another one was killed. */
  function clean (): void {
    if (performance.now() - cleaned < hourMs) return
    cleaned = performance.now()
    // After a failure, the next upload after an hour tries again.
    removeLeftovers(join(folder, incoming)).catch(() => {})
  }

  /** Creates the file of the key from a file that `write` creates and flushes. Resolves with the result of `write`. */
  async function place<T> (key: string, write: (path: string) => Promise<T>): Promise<T> {
    checkKey(key)
    const beside = join(folder, incoming, randomUUID())
    clean()
    try {
      await onDisk(mkdir(dirname(beside), { recursive: true }))
      const path = await pathOf(key)
      const written = await write(beside)
      await onDisk(makeFolder(dirname(path)))
      await onDisk(rename(beside, path))
      await flushFolder(dirname(path))
      return written
    } catch (error) {
      await rm(beside, { force: true }).catch(() => {})
      throw error
    }
  }

  return {
    put (key, bytes) {
      let sourceError: unknown
      // The stream may fail before its bytes are read.
      bytes.once('error', (error) => {
        sourceError = error
      })
      return place(key, (path) => writeAll(path, bytes, () => sourceError))
    },

    async get (key, range) {
      const file = await orNull(open(await pathOf(key), 'r'))
      return file === null ? null : storedBytes(file.createReadStream({ ...range, autoClose: true }), translateDiskError)
    },

    async stat (key) {
      const found = await orNull(stat(await pathOf(key)))
      return found === null ? null : { key, size: found.size, modifiedAt: found.mtime }
    },

    async copy (from, to) {
      const source = await pathOf(from)
      if (await orNull(stat(source)) === null) return false
      await place(to, (path) => onDisk(copyFlushed(source, path)))
      return true
    },

    async delete (key) {
      await onDisk(rm(await pathOf(key), { force: true }))
    },

    async * list (prefix) {
      const [tenant = '', start = ''] = prefix.split('/')
      for (const name of prefix.includes('/') ? [tenant] : await tenantsWith(tenant)) {
        const isWanted = (entry: Dirent) => entry.isFile() && isObjectName(entry.name) && entry.name.startsWith(start)
        const files = await namesIn(await folderFor(name), isWanted)
        for (let at = 0; at < files.length; at += pageSize) {
          const page = await Promise.all(files.slice(at, at + pageSize).map((file) => this.stat(`${name}/${file}`)))
          yield page.filter((object): object is StoredObject => object !== null)
        }
      }
    },

    sign: () => Promise.resolve(null),

    async check () {
      await onDisk(mkdir(join(folder, incoming), { recursive: true }))
      await onDisk(access(folder, constants.R_OK | constants.W_OK | constants.X_OK))
      await isFoldedDisk()
    },

    close: () => Promise.resolve()
  }
}

/** Resolves with the number of bytes. Rejects with the error of the stream that failed first: pipeline also passes it to the other. */
async function writeAll (path: string, bytes: Readable, sourceError: () => unknown): Promise<number> {
  const file = new FileWriter(path)
  let diskError: unknown
  file.once('error', (error) => {
    if (sourceError() === undefined) diskError = error
  })
  try {
    await pipeline(bytes, file)
    return file.size
  } catch (error) {
    throw diskError === undefined ? sourceError() ?? error : translateDiskError(diskError)
  }
}

async function copyFlushed (from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_FICLONE)
  const file = await open(to, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Its parent exists. With `recursive`, Node.js reports a full disk as ENOENT. */
async function makeFolder (path: string): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
}

/** Flushes the names in a folder to the disk, if the system supports it. */
async function flushFolder (path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => null)
  await folder?.sync().catch(() => {})
  await folder?.close()
}

/** Removes bytes of uploads whose process ended at least a day ago. */
async function removeLeftovers (folder: string): Promise<void> {
  for (const name of await namesIn(folder, () => true)) {
    const path = join(folder, name)
    const found = await orNull(stat(path))
    if (found !== null && Date.now() - found.mtimeMs > dayMs) await rm(path, { force: true })
  }
}

/** Sorted names of entries; none if there is no such folder. */
async function namesIn (folder: string, isWanted: (entry: Dirent) => boolean): Promise<string[]> {
  const entries = await orNull(readdir(folder, { withFileTypes: true })) ?? []
  return entries.filter(isWanted).map(({ name }) => name).sort()
}

async function orNull<T> (promise: Promise<T>): Promise<T | null> {
  try {
    return await promise
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw translateDiskError(error)
  }
}

async function onDisk<T> (promise: Promise<T>): Promise<T> {
  try {
    return await promise
  } catch (error) {
    throw translateDiskError(error)
  }
}

const full = new Set(['ENOSPC', 'EDQUOT'])

/** The caller's error for a file system error. */
export function translateDiskError (error: unknown): unknown {
  const code = codeOf(error)
  if (code === undefined) return error
  return failure(full.has(code) ? 'storageFull' : 'storageUnavailable', { cause: error })
}
