/** The embedded engine: PostgreSQL in this process, in a folder or in memory. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PGlite } from '@electric-sql/pglite'
import { codeOf } from '../errors.js'
import type { Embedded } from '../schema/database.js'
import type { Connections } from './connections.js'
import { watchDiskRoom } from './disk-room.js'
import { preparedData, preparedDate } from './embedded-prepared.js'
import type { EngineLog } from './engine.js'
import { connectPglite, loadPglite, type Pglite } from './pglite.js'

const blockSize = 512 // bytes; a header is one block, and contents are padded to whole blocks
const directory = '5'

/** A database in memory has its files there too: the usual cache of 128 MB would hold them twice, and takes 0.1 s to create. */
const memorySettings = ['shared_buffers = 16MB']

/** Creates the folder, for its owner only, from a trusted archive. Promises for a thousand small files would take three times as long. */
function unpack (archive: Buffer, folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  let offset = 0
  while (offset + blockSize <= archive.length && archive[offset] !== 0) {
    const header = archive.subarray(offset, offset + blockSize)
    const path = join(folder, textOf(header, 345, 155), textOf(header, 0, 100))
    const size = Number.parseInt(textOf(header, 124, 12), 8)
    if (Number.isNaN(size)) throw new Error('the archive is damaged')
    offset += blockSize
    if (textOf(header, 156, 1) === directory) mkdirSync(path, { recursive: true, mode: 0o700 })
    else writeSparse(path, archive.subarray(offset, offset + size))
    offset += Math.ceil(size / blockSize) * blockSize
  }
}

/** Skips trailing zeros, of which a new write-ahead log is full: they take neither time nor space. */
function writeSparse (path: string, content: Buffer): void {
  let end = content.length
  while (end > 0 && content[end - 1] === 0) end--
  writeFileSync(path, content.subarray(0, end), { mode: 0o600 })
  if (end < content.length) truncateSync(path, content.length)
}

function textOf (header: Buffer, start: number, length: number): string {
  const field = header.toString('latin1', start, start + length)
  const end = field.indexOf('\0')
  return end === -1 ? field : field.slice(0, end)
}

/** Opens the folder, or a database in memory. Writes survive any end of the process, not a power loss. Throws if the folder is in use. */
export async function connectEmbedded ({ dbPath }: Embedded = {}, log: EngineLog): Promise<Connections> {
  const pglite = await loadPglite()
  if (dbPath === undefined) {
    const database = await openMemory(pglite)
    return connectPglite(pglite, database, () => database.close())
  }
  const folder = resolve(dbPath)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const unlock = await takeLock(folder)
  try {
    const database = await openFolder(pglite, folder)
    const connections = connectPglite(pglite, database, async () => {
      endWatch()
      await database.close()
      await unlock()
    })
    const endWatch = watchDiskRoom(folder, connections.pool, log)
    return { ...connections, folder }
  } catch (error) {
    await unlock()
    throw error
  }
}

async function openMemory (pglite: Pglite): Promise<PGlite> {
  const data = new Blob([await preparedData(pglite)], { type: 'application/x-tar' })
  return begin(await pglite.create('memory://', { loadDataDir: data, postgresqlconf: memorySettings }))
}

async function openFolder (pglite: Pglite, folder: string): Promise<PGlite> {
  const data = join(folder, 'data')
  if (!existsSync(join(data, 'PG_VERSION'))) {
    // The data gets its final name when it is complete, so that an interrupted first start begins again.
    const unfinished = join(folder, 'data.unfinished')
    await rm(unfinished, { recursive: true, force: true })
    unpack(await preparedData(pglite), unfinished)
    await rename(unfinished, data)
  }
  return begin(await pglite.create(data))
}

/** Dates the migrations of prepared data at their first start: servers distinguish databases by these dates. */
async function begin (database: PGlite): Promise<PGlite> {
  await database.exec(`do $$ begin
    if to_regclass('tenantry.migrations') is not null then
      update tenantry.migrations set applied_at = now() where applied_at = '${preparedDate}';
    end if;
  end $$`)
  return database
}

// The lock on the folder of an embedded database: two processes in one folder would lose each other's rows.

interface Holder {
  readonly pid: number
  /** The start time of the process: a later process may have the same pid. */
  readonly startedAt: string | null
}

const guardPauseMs = 20
const guardAbandonedAfterMs = 2000 // it is held only for a few file operations

/** Takes the lock, or throws an error that names the folder and the process that holds it. Returns the function that releases it. */
export async function takeLock (folder: string): Promise<() => Promise<void>> {
  const path = join(folder, 'lock.json')
  const own: Holder = { pid: process.pid, startedAt: startOf(process.pid) }
  await underGuard(join(folder, 'lock.guard'), async () => {
    const holder = await readHolder(path)
    if (holder !== null && isAlive(holder)) {
      throw new Error(
        `the embedded database in ${folder} is in use by process ${holder.pid}: stop that process, or set another embedded.dbPath for this one`
      )
    }
    await writeFile(path, JSON.stringify(own))
  })
  return async () => {
    await rm(path, { force: true })
  }
}

async function readHolder (path: string): Promise<Holder | null> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const found = /^\{"pid":(\d+),"startedAt":(?:"([^"]*)"|null)\}$/.exec(text)
  // A process that was killed while it wrote the lock had not opened the data yet.
  return found?.[1] === undefined ? null : { pid: Number(found[1]), startedAt: found[2] ?? null }
}

function isAlive ({ pid, startedAt }: Holder): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // The process exists, and belongs to another user.
    if (codeOf(error) !== 'EPERM') return false
  }
  const now = startOf(pid)
  return startedAt === null || now === null || now === startedAt
}

/** The start time of a process; null if the system does not report it. */
function startOf (pid: number): string | null {
  try {
    if (process.platform === 'linux') {
      // The name of the program, in parentheses, may contain anything; the 22nd field counts from the boot of the system.
      const status = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const ticks = status.slice(status.lastIndexOf(')') + 2).split(' ')[19]
      return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${ticks}`
    }
    if (process.platform === 'win32') return null
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
  } catch {
    return null
  }
}

/** One process at a time checks and takes the lock. */
async function underGuard (path: string, work: () => Promise<void>): Promise<void> {
  while (!await writeFile(path, String(process.pid), { flag: 'wx' }).then(() => true, whenTaken)) {
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }))
    if (Date.now() - mtimeMs > guardAbandonedAfterMs) await rm(path, { force: true })
    else await sleep(guardPauseMs)
  }
  try {
    await work()
  } finally {
    await rm(path, { force: true })
  }
}

function whenTaken (error: unknown): false {
  if (codeOf(error) === 'EEXIST') return false
  throw error
}
