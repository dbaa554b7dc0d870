/** The lock on the folder of an embedded database: two processes in one folder would lose each other's rows. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from '../errors.js'

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
