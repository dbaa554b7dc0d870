/**
 * The cache in an LMDB file, one for the processes of a machine. Values are read in this process; changes of the file are transactions,
 * which the processes make one after the other, each some tenths of a millisecond.
 */

import { hash } from 'node:crypto'
import { statfsSync } from 'node:fs'
import { promisify } from 'node:util'
import type { CacheBounds, CacheStore, Miss, TableUse, Warn } from '../../lib/cache/store.js'
import { capacityOf, everyTenant } from '../../lib/cache/store.js'
import { atMostEvery } from '../../lib/time/spans.js'
import { createCounts } from './counts.js'
import { type LmdbFile, loadPackage, openFile } from './lmdb-file.js'
import { bytesOf, createLmdbItems, type LmdbItems } from './lmdb-items.js'
import { createLmdbStamps, type LmdbStamps } from './lmdb-stamps.js'

const megabyte = 1_048_576 // bytes
const spare = 16 // megabytes of the file besides twice the cache
// Megabytes of free disk space, since LMDB does not survive a full disk: for another item, and for announcing a write.
const [freeForItem, freeForWrite] = [64, 8]
const recheckMs = 1000 // between checks of the disk, of the file's existence, and of a file that failed to write
const checkReadersMs = 60_000 // for snapshots of dead processes
const itemsAtOnce = 100 // removed by one transaction, some milliseconds
const maxTransactions = 100_000 // of one `clear`

export interface LmdbCacheOptions extends CacheBounds {
  /** The folder, for processes of one machine only. */
  readonly dbPath: string
  readonly warn: Warn
  /** Called with the reason why a file is replaced by an empty one. */
  readonly onRenewal?: ((reason: string) => void) | undefined
  /** The clock, in milliseconds since 1970, which the processes share. Default: the system's. */
  readonly now?: (() => number) | undefined
  /** Free bytes on the disk of the folder. Default: the system's figure. */
  readonly free?: (() => number) | undefined
}

interface OpenCache {
  readonly file: LmdbFile
  readonly stamps: LmdbStamps
  readonly items: LmdbItems
}

const nothing: readonly TableUse[] = []
const nextTurn = promisify(setImmediate)

/** Opens the file; throws if it cannot be used, or the package lmdb is not installed. */
export async function createLmdbCache (
  { dbPath, warn, onRenewal = () => {}, now = Date.now, free = () => freeBytes(dbPath), ...bounds }: LmdbCacheOptions
): Promise<CacheStore> {
  const { maxSize, maxBytes } = capacityOf(bounds)
  const lmdb = await loadPackage()
  /** undefined while the file is gone, until it is opened again. */
  let opened: OpenCache | undefined = openAll()
  const counts = createCounts()
  let isClosed = false
  let misses = 0
  let available = 0 // bytes
  const isDiskDue = atMostEvery(recheckMs)
  const isFileDue = atMostEvery(recheckMs)
  const areReadersDue = atMostEvery(checkReadersMs)
  /** Unannounced writes: until they are announced, all items are outdated for this process. */
  let isLate = false
  let timer: NodeJS.Timeout | undefined

  function hasDiskSpace (megabytes: number): boolean {
    if (isDiskDue()) available = free()
    if (available >= megabytes * megabyte) return true
    warn(`less than ${megabytes} MB are free on its disk`)
    return false
  }

  function openAll (): OpenCache {
    const file = openFile(lmdb, { dbPath, mapSize: 2 * maxBytes + spare * megabyte, onRenewal })
    const state = file.env.openDB<number, string>({ name: 'state' })
    return { file, stamps: createLmdbStamps(file.env, state), items: createLmdbItems(file.env, state, { maxSize, maxBytes, now }) }
  }

  /** Another file may be in its place, without later writes of this process. */
  function isGone ({ file }: OpenCache): boolean {
    if (file.isThere()) return false
    onRenewal('it was removed')
    opened = undefined
    announceLater()
    file.close().catch((error: unknown) => warn('its file cannot be closed', error))
    return true
  }

  /** An atomic change of the file, or else the fallback. */
  function change<Value> (work: (opened: OpenCache) => Value, fallback: Value, needs = freeForWrite): Value {
    if (isClosed || opened === undefined) return fallback
    const here = opened
    try {
      if (!hasDiskSpace(needs)) return fallback
      if (areReadersDue()) here.file.env.readerCheck()
      const value = here.file.env.transactionSync(() => work(here))
      return isGone(here) ? fallback : value
    } catch (error) {
      warn('its file cannot be written to', error)
      isGone(here)
      return fallback
    }
  }

  function read<Value> (work: (opened: OpenCache) => Value, fallback: () => Value): Value {
    if (isClosed || isLate || opened === undefined) return fallback()
    if (isFileDue() && isGone(opened)) return fallback()
    try {
      // Changes of other processes since the beginning of this turn count too.
      opened.file.env.resetReadTxn()
      return work(opened)
    } catch (error) {
      warn('its file cannot be read', error)
      return fallback()
    }
  }

  /** Until then nothing is found here. Then they are announced as a change of everything. */
  function announceLater (): void {
    isLate = true
    timer ??= setTimeout(() => {
      timer = undefined
      if (isClosed) return
      try {
        opened ??= openAll()
      } catch (error) {
        warn('its file cannot be opened', error)
      }
      if (announce((stamps) => stamps.clear(everyTenant))) isLate = false
      else announceLater()
    }, recheckMs).unref()
  }

  /** Returns whether the file has the change. */
  function announce (work: (stamps: LmdbStamps) => void): boolean {
    return change(({ stamps }) => {
      work(stamps)
      return true
    }, false)
  }

  return {
    provider: 'lmdb',
    // Other machines have their own files.
    shared: false,
    get (tenant, key, reads = nothing) {
      // A unique stamp: nothing is stored or shared under it, since another process may have written.
      const missed = () => ({ stamp: `away ${++misses}` })
      const found = read<string | Miss>(({ stamps, items }) => {
        const stamp = stamps.of(tenant, reads)
        const value = items.find(tenant, idOf(key), stamp)
        return value === undefined ? { stamp } : value
      }, missed)
      if (typeof found === 'string') counts.hit(tenant)
      else counts.miss(tenant)
      return found
    },
    set (tenant, key, value, ttlMs, stamp) {
      const id = idOf(key)
      const bytes = bytesOf(key, value)
      if (bytes > maxBytes) {
        warn('it is larger than the cache')
        change(({ items }) => items.drop(tenant, id), false)
        return
      }
      if (typeof stamp === 'string') return
      const kept = change(
        ({ stamps, items }) =>
          items.keep(tenant, id, { key, value, stamp: stamp ?? stamps.of(tenant, nothing), endsAt: now() + ttlMs, bytes }),
        true,
        freeForItem
      )
      if (!kept) warn('it would displace too many other responses at once')
    },
    invalidate (tenant, writes) {
      if (!announce((stamps) => stamps.written(tenant, writes))) announceLater()
    },
    delete: (tenant, key) => change(({ items }) => items.drop(tenant, idOf(key)), false),
    async clear (tenant) {
      if (!announce((stamps) => stamps.clear(tenant))) announceLater()
      let removed = 0
      for (let turn = 0; turn < maxTransactions; turn++) {
        const count = change(({ items }) => items.empty(tenant, itemsAtOnce), 0)
        removed += count
        if (count < itemsAtOnce) break
        await nextTurn()
      }
      return removed
    },
    keys: (tenant, limit = 1000) => read(({ items }) => items.keys(tenant, limit), () => []),
    async stats (tenant) {
      while (change(({ items }) => items.sweep(itemsAtOnce), 0) === itemsAtOnce) await nextTurn()
      return { ...read(({ items }) => items.held(tenant), () => ({ items: 0, bytes: 0 })), ...counts.of(tenant) }
    },
    ping () {
      const isRead = read(({ items }) => items.held(everyTenant).items >= 0, () => false)
      if (!isRead) throw new Error('the file of the cache cannot be used')
    },
    async close () {
      if (isClosed) return
      isClosed = true
      clearTimeout(timer)
      await opened?.file.close()
    }
  }
}

/** Keys of LMDB are short. */
function idOf (key: string): string {
  return hash('sha256', key, 'base64url')
}

function freeBytes (path: string): number {
  const { bavail, bsize } = statfsSync(path)
  return bavail * bsize
}
