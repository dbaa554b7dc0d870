/**
 * Opens the file of an LMDB cache: loads the package, creates the folder and checks the file. An unusable file is replaced by an empty
 * folder, since a cache has nothing to lose. Processes that use the old file notice that it is gone.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync, fstatSync, mkdirSync, openSync, readdirSync, readFileSync, readlinkSync, readSync, renameSync, rmSync, statSync,
  utimesSync, writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import { messageOf } from '../../lib/errors.js'

const format = 'v1' // of the file's content
const databases = 8
const attempts = 5 // at a file that others replace meanwhile

// LMDB's meta pages: the first two pages, with the last two transactions.
const magic = 0xbeefc0de
const version = 2
const metaAt = 24 // bytes into its page
const metaLength = 136
const pageSizeAt = 24 // bytes into the meta data, as the others
const lastPageAt = 120
const transactionAt = 128
const pageSizes = [4096, 8192, 16_384, 32_768, 65_536]

type LmdbPackage = typeof import('lmdb')

export interface LmdbFile {
  readonly env: RootDatabase
  /** false after another file, or none, has replaced it: writes to this one are lost. */
  isThere(): boolean
  close(): Promise<void>
}

interface LmdbFileOptions {
  readonly dbPath: string
  /** Bytes at most. */
  readonly mapSize: number
  /** Called with the reason why the file is replaced by an empty one. */
  readonly onRenewal: (reason: string) => void
}

export async function loadPackage (): Promise<LmdbPackage> {
  try {
    return await import('lmdb')
  } catch (error) {
    throw new Error('A cache in LMDB needs the package lmdb: npm i lmdb@3', { cause: error })
  }
}

/**
 * Opens the cache below `dbPath`, creating it if necessary. Several processes of one machine may share it. Each boot of the machine has its
 * own folder, and those of earlier boots are removed: writes then need not reach the disk, and after a power loss no old response remains.
 * On a system without boot ids, writes reach the disk.
 *
 * Throws if not even an empty file can be used.
 */
export function openFile (lmdb: LmdbPackage, { dbPath, mapSize, onRenewal }: LmdbFileOptions): LmdbFile {
  const boot = bootId()
  const name = `${format}-${boot ?? 'lasting'}`
  const folder = join(dbPath, name)
  let renewed = false

  function renew (reason: string): void {
    renewed = true
    onRenewal(reason)
    const removed = join(dbPath, `${name}.${randomBytes(6).toString('hex')}`)
    // Atomic, so that no process finds half of it. Another process may have done so already.
    if (statSync(folder, { throwIfNoEntry: false }) !== undefined) renameSync(folder, removed)
    rmSync(removed, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  /** undefined if another process has replaced the file meanwhile. */
  function attempt (): LmdbFile | undefined {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const path = join(folder, 'data.mdb')
    const fault = usersOf(folder).crashed ? 'a process ended soon after it had opened the file' : faultOf(path)
    if (fault !== undefined) renew(fault)
    // Creates the file if necessary: LMDB treats an empty file as a new one.
    const inode = withFile(path, 'a', (file) => fstatSync(file).ino)
    const leave = useFolder(folder)
    try {
      const env = lmdb.open({ path: folder, mapSize, maxDbs: databases, noSync: boot !== undefined, overlappingSync: false })
      const isThere = () => quietly(() => statSync(path).ino) === inode
      const close = async () => {
        leave()
        await env.close()
      }
      if (isThere()) return { env, isThere, close }
      close().catch(() => {})
    } catch (error) {
      leave()
      if (renewed) throw error
      renew(messageOf(error))
    }
    return undefined
  }

  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (boot !== undefined) removeOthers(dbPath, name)
    for (let count = 0; count < attempts; count++) {
      const file = attempt()
      if (file !== undefined) return file
    }
    throw new Error('other processes replaced it repeatedly')
  } catch (error) {
    throw new Error(`the cache in "${folder}" cannot be opened: ${messageOf(error)}`, { cause: error })
  }
}

/** Linux's boot id; containers of one machine share it. */
function bootId (): string | undefined {
  return quietly(() => /^[0-9a-f-]{36}$/.exec(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())?.[0])
}

/** Folders of earlier boots, of other versions, and leftovers of replaced ones; not while a process uses them. */
function removeOthers (dbPath: string, name: string): void {
  for (const other of readdirSync(dbPath)) {
    const path = join(dbPath, other)
    if (other !== name && /^v\d+-(?:[0-9a-f-]{36}|lasting)(?:\.[0-9a-f]+)?$/.test(other) && !usersOf(path).some) {
      rmSync(path, { recursive: true, force: true })
    }
  }
}

function withFile<Result> (path: string, flags: 'a' | 'r', work: (file: number) => Result): Result {
  const file = openSync(path, flags, 0o600)
  try {
    return work(file)
  } finally {
    closeSync(file)
  }
}

/** LMDB crashes the process for a foreign file, and for a truncated one. */
function faultOf (path: string): string | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size === 0) return undefined
  const first = metaOf(path, 0)
  const second = first && metaOf(path, first.pageSize)
  if (first === undefined || second === undefined) return 'data.mdb is not an LMDB file'
  const { lastPage, pageSize } = first.transaction > second.transaction ? first : second
  return (lastPage + 1) * pageSize > size ? 'data.mdb was cut off' : undefined
}

/** The transaction of a meta page; undefined for another page. */
function metaOf (path: string, at: number) {
  const meta = Buffer.alloc(metaLength)
  const length = withFile(path, 'r', (file) => readSync(file, meta, 0, metaLength, at + metaAt))
  if (length < metaLength) return undefined
  const pageSize = meta.readUInt32LE(pageSizeAt)
  if (meta.readUInt32LE(0) !== magic || (meta.readUInt32LE(4) & 0xffff) !== version || !pageSizes.includes(pageSize)) return undefined
  return { pageSize, lastPage: Number(meta.readBigUInt64LE(lastPageAt)), transaction: Number(meta.readBigUInt64LE(transactionAt)) }
}

const healthyAfterMs = 60_000 // in which a damaged file crashes the process
const aliveMs = 30_000 // between two signs of life
const deadMs = 4 * aliveMs

/** `opening` until the file counts as sound; then the process, and its PID namespace. */
const marks = /^(opening|open)-(\d+)-(\d+)-/

/** The marks of this process, which may have more than one cache. */
const own = new Set<string>()

/**
 * Whether processes use the folder, and whether one ended in its first minute with it, without closing it: LMDB crashes a process on a
 * damaged file. Each process has a small file there while it runs. The folder may not exist; files of ended processes are removed.
 * Correctness does not depend on it: a process that loses its folder notices.
 */
function usersOf (folder: string) {
  let [some, crashed] = [false, false]
  for (const name of quietly(() => readdirSync(folder)) ?? []) {
    const [, state, pid, namespace] = marks.exec(name) ?? []
    if (pid === undefined || namespace === undefined) continue
    const path = join(folder, name)
    if (own.has(name) || isAlive(path, Number(pid), namespace)) some = true
    else {
      if (state === 'opening') crashed = true
      rmSync(path, { force: true })
    }
  }
  return { some, crashed }
}

/** This process uses the folder, until the returned function is called. */
function useFolder (folder: string): () => void {
  const rest = `${process.pid}-${namespaceOf()}-${randomBytes(6).toString('hex')}`
  let name = `opening-${rest}`
  own.add(name)
  writeFileSync(join(folder, name), '')
  const healthy = setTimeout(() => {
    const before = name
    own.add(name = `open-${rest}`)
    quietly(() => renameSync(join(folder, before), join(folder, name)))
    own.delete(before)
  }, healthyAfterMs).unref()
  const alive = setInterval(() => quietly(() => utimesSync(join(folder, name), new Date(), new Date())), aliveMs).unref()
  return () => {
    clearTimeout(healthy)
    clearInterval(alive)
    own.delete(name)
    quietly(() => rmSync(join(folder, name), { force: true }))
  }
}

function isAlive (path: string, pid: number, namespace: string): boolean {
  const seen = statSync(path, { throwIfNoEntry: false })
  if (seen === undefined || Date.now() - seen.mtimeMs > deadMs) return false
  // A process of another container, which cannot be checked.
  if (namespace !== namespaceOf()) return true
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** Linux's number of a PID namespace; 0 on other systems. */
function namespaceOf (): string {
  return quietly(() => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0]) ?? '0'
}

/** undefined after a failure: a file or folder may be gone. */
function quietly<Result> (work: () => Result): Result | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
