/**
 * The one PostgreSQL server that all test processes of a run share: the first that needs it starts its keeper, the
 * others find it, and a single test file that a developer runs finds the one of a minute ago.
 */
import type { Socket } from 'node:net'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { openSync, closeSync, realpathSync } from 'node:fs'
import { mkdir, readFile, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { programArguments, root } from '../typescript.js'
import { findNativeFolder } from './binaries.js'

/** How long to wait for a server that this or another process starts. */
const startTimeoutMs = 90_000
const pollMs = 50

// One server a working copy (which its compiled copies link to) and user: two clones on one machine do not meet.
const here = realpathSync(join(root, 'package.json'))
const identity = createHash('sha256').update(`${here}\0${process.getuid?.() ?? ''}`).digest('hex').slice(0, 12)
const folder = join(tmpdir(), `tenantry-test-${identity}`)
const stateFile = join(folder, 'state.json')
const logFile = join(folder, 'keeper.log')
const lockFolder = join(folder, 'starting')

/** For `programArguments`. */
export const keeperProgram = 'test/helpers/postgres/keeper.ts'

let shared: Promise<number> | undefined

/** The port of the shared server, started where it does not run; it stays until this process ends. */
export function sharedServerPort (): Promise<number> {
  shared ??= joinOrStart()
  return shared
}

/** Tells a running shared server to end with its last user, instead of a minute later. */
export async function leaveSharedServer (): Promise<void> {
  const keeper = await joinKeeper()
  if (keeper === null) return
  await new Promise<void>(resolve => {
    keeper.socket.once('close', () => resolve())
    keeper.socket.end('leave\n')
  })
}

async function joinOrStart (): Promise<number> {
  await findNativeFolder()
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const deadline = Date.now() + startTimeoutMs
  while (Date.now() < deadline) {
    const keeper = await joinKeeper()
    if (keeper !== null) {
      // The connection tells the keeper that this process lives, and must not itself keep the process alive.
      keeper.socket.unref()
      return keeper.port
    }
    if (await takeLock()) await startKeeper().finally(() => rm(lockFolder, { recursive: true, force: true }))
    else await sleep(pollMs)
  }
  throw new Error(`PostgreSQL for the tests did not start within ${startTimeoutMs / 1000} s: see ${logFile}`)
}

async function joinKeeper (): Promise<{ socket: Socket, port: number } | null> {
  const state = await readFile(stateFile, 'utf8').then(JSON.parse, () => null)
  if (state === null) return null
  return await new Promise(resolve => {
    const socket = connect(state.keeperPort, '127.0.0.1')
    socket.setEncoding('utf8')
    socket.once('data', text => resolve({ socket, port: JSON.parse(String(text)).port }))
    socket.once('error', () => resolve(null))
    socket.once('close', () => resolve(null))
  })
}

async function takeLock (): Promise<boolean> {
  try {
    await mkdir(lockFolder)
    return true
  } catch {
    // Its owner was killed while it started the server. Two processes that both find so start two servers, each of
    // which ends by itself.
    const { mtimeMs } = await stat(lockFolder).catch(() => ({ mtimeMs: Date.now() }))
    if (Date.now() - mtimeMs > startTimeoutMs / 2) await rm(lockFolder, { recursive: true, force: true })
    return false
  }
}

async function startKeeper (): Promise<void> {
  await rm(stateFile, { force: true })
  const log = openSync(logFile, 'w')
  const keeper = spawn(process.execPath, [...programArguments(keeperProgram), 'shared', stateFile], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', log, log],
    env: keeperEnvironment()
  })
  closeSync(log)
  keeper.unref()
  let exited = false
  keeper.once('exit', () => {
    exited = true
  })
  const deadline = Date.now() + startTimeoutMs / 2
  while (Date.now() < deadline) {
    if (exited) throw new Error(`PostgreSQL for the tests did not start\n${await readFile(logFile, 'utf8')}`)
    if (await stat(stateFile).then(() => true, () => false)) return
    await sleep(pollMs)
  }
}

/** The keeper is no test: what tap hands to its children must not reach it. */
export function keeperEnvironment (): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TAP|_TAPJS|NODE_OPTIONS)/.test(name)))
}
