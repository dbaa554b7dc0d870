/**
 * The processes that use a folder of the cache, and those that ended shortly after opening it: LMDB crashes a process on a damaged file.
 * Each process has a small file there while it runs. Correctness does not depend on it: a process that loses its folder notices
 * (lmdb-file.ts).
 */
import { randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const healthyAfterMs = 60_000 // in which a damaged file crashes the process
const aliveMs = 30_000 // between two signs of life
const deadMs = 4 * aliveMs

/** `opening` until the file counts as sound; then the process, and its PID namespace. */
const marks = /^(opening|open)-(\d+)-(\d+)-/

/** Of this process, which may have more than one cache. */
const own = new Set<string>()

export interface Users {
  /** A running process uses the folder. */
  readonly some: boolean
  /** A process ended in its first minute with the folder, without closing it. */
  readonly crashed: boolean
}

/** The users of the folder, which may not exist; removes the files of ended ones. */
export function usersOf (folder: string): Users {
  let [some, crashed] = [false, false]
  let names: string[] = []
  quietly(() => {
    names = readdirSync(folder)
  })
  for (const name of names) {
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
export function useFolder (folder: string): () => void {
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
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0'
  } catch {
    return '0'
  }
}

/** The folder may be gone. */
function quietly (work: () => void): void {
  try {
    work()
  } catch {}
}
