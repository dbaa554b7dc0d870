/**
 * The lock on the folder of an embedded database: two processes in one folder would lose each other's rows. The holder touches the lock
 * file while it runs. A process of the same container or host is found by its pid. Any other is alive if the file changes.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { open, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { codeOf } from '../errors.js'
import type { EngineLog } from './engine.js'

interface Holder {
  readonly pid: number
  /** The start time of the process: a later process may have the same pid. */
  readonly startedAt: string | null
  /** Where the pid names this process: a PID namespace of a running system. Another container has another. */
  readonly scope: string
}

/** A lock file as it was read. */
interface Seen extends Holder {
  /** Changes with every touch. */
  readonly touched: number
}

export interface LockOptions {
  /** Default: the PID namespace of this process. */
  readonly scope?: string
  /** The reader's clock, in milliseconds. Default: that of the process, which never goes back. */
  readonly now?: () => number
  readonly sleep?: (ms: number) => Promise<unknown>
  readonly log?: EngineLog
}

const touchMs = 2000
const goneAfterMs = 10_000 // without a touch: five touches are missing
const lookMs = 250 // between two looks at the lock of another container or host
const guardPauseMs = 20
const guardAbandonedAfterMs = 2000 // it is held only for a few file operations

/** A thread, because statements of the embedded database block the process. Clocks of hosts differ, so no reader compares the time. */
const toucher = `
const { utimesSync } = require('node:fs')
const { path, touchMs } = require('node:worker_threads').workerData
setInterval(() => {
  try {
    utimesSync(path, new Date(), new Date())
  } catch {}
}, touchMs)`

/**
 * Takes the lock, or throws an error that names the folder and the process that holds it. Waits for up to 10 seconds if the holder was in
 * another container or on another host. Returns the function that releases it.
 */
export async function takeLock (
  folder: string,
  { scope = ownScope(), now = () => performance.now(), sleep: wait = sleep, log }: LockOptions = {}
): Promise<() => Promise<void>> {
  const path = join(folder, 'lock.json')
  const text = JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid), scope } satisfies Holder)
  let first: Seen | null = null
  let since = 0
  for (;;) {
    const isTaken = await underGuard(join(folder, 'lock.guard'), async () => {
      const seen = await readHolder(path, scope)
      if (seen !== null && seen.scope === scope) {
        if (isAlive(seen)) throw inUse(folder, seen)
      } else if (seen !== null) {
        first ??= begin(seen)
        if (!isSame(first, seen)) throw inUse(folder, seen, ' of another container or host')
        if (now() - since < goneAfterMs) return false
      }
      await writeFile(path, text)
      return true
    })
    if (isTaken) break
    await wait(lookMs)
  }
  const thread = new Worker(toucher, {
    eval: true,
    workerData: { path, touchMs },
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16 }
  })
  thread.unref()
  return async () => {
    await thread.terminate()
    // Another process has taken the lock of one that did not run for a while.
    if (await readFile(path, 'utf8').catch(() => '') === text) await rm(path, { force: true })
  }

  function begin (seen: Seen): Seen {
    since = now()
    log?.info({ folder }, 'a process of another container or host has used the embedded database: checking for up to 10 seconds whether it runs')
    return seen
  }
}

function inUse (folder: string, { pid }: Holder, place = ''): Error {
  return new Error(
    `the embedded database in ${folder} is in use by process ${pid}${place}: stop that process, or set another embedded.dbPath for this one`
  )
}

/** A lock without a scope is from this one. */
async function readHolder (path: string, scope: string): Promise<Seen | null> {
  const file = await open(path).catch(() => null)
  if (file === null) return null
  try {
    // Opening a file makes a network disk report its current state.
    const [text, { mtimeMs }] = [await file.readFile('utf8'), await file.stat()]
    const found = /^\{"pid":(\d+),"startedAt":(?:"([^"]*)"|null)(?:,"scope":"([^"]*)")?\}$/.exec(text)
    // A process that was killed while it wrote the lock had not opened the data yet.
    if (found?.[1] === undefined) return null
    return { pid: Number(found[1]), startedAt: found[2] ?? null, scope: found[3] ?? scope, touched: mtimeMs }
  } finally {
    await file.close()
  }
}

function isSame (first: Seen, { pid, startedAt, scope, touched }: Seen): boolean {
  return first.pid === pid && first.startedAt === startedAt && first.scope === scope && first.touched === touched
}

/** PID namespaces have numbers that are unique until the system restarts; the boot id distinguishes systems and their restarts. */
function ownScope (): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return hostname()
  }
}

function isAlive ({ pid, startedAt }: Pick<Holder, 'pid' | 'startedAt'>): boolean {
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
async function underGuard<Result> (path: string, work: () => Promise<Result>): Promise<Result> {
  let first = 0
  let since = performance.now()
  while (!await writeFile(path, String(process.pid), { flag: 'wx' }).then(() => true, whenTaken)) {
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: 0 }))
    if (mtimeMs !== first) [first, since] = [mtimeMs, performance.now()]
    if (performance.now() - since > guardAbandonedAfterMs) await rm(path, { force: true })
    else await sleep(guardPauseMs)
  }
  try {
    return await work()
  } finally {
    await rm(path, { force: true })
  }
}

function whenTaken (error: unknown): false {
  if (codeOf(error) === 'EEXIST') return false
  throw error
}
