/**
 * The PostgreSQL server that all test processes of a run share. The first process that needs it starts its keeper, and the others
 * join. A later test run joins too if it starts within a minute.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, openSync, realpathSync } from 'node:fs'
import { mkdir, readFile, rm, stat } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { programArguments, root } from '../typescript.js'
import { findNativeFolder } from './binaries.js'

/** Milliseconds to wait for a server that this or another process starts, half of them for one start on a busy machine. */
const startTimeoutMs = 150_000
const pollMs = 50

// One server for each user and working copy, with its compiled copies: two clones on one machine have separate servers.
const here = realpathSync(join(root, 'package.json'))
const identity = createHash('sha256').update(`${here}\0${process.getuid?.() ?? ''}`).digest('hex').slice(0, 12)
const folder = join(tmpdir(), `tenantry-test-${identity}`)
const stateFile = join(folder, 'state.json')
const logFile = join(folder, 'keeper.log')
const lockFolder = join(folder, 'starting')

/** The path for `programArguments`. */
export const keeperProgram = 'test/helpers/postgres/keeper.ts'

let shared: Promise<number> | undefined

/** The port of the shared server, which is started if necessary. It stays until this process ends. */
export function sharedServerPort (): Promise<number> {
  shared ??= joinOrStart()
  return shared
}

/** Makes a running shared server end with its last user, instead of a minute later. */
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
      // The open connection shows the keeper that this process lives. It must not keep this process alive.
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
    // The lock's owner was killed while it started the server. If two processes detect this at once, each starts a server, and each
    // server ends by itself.
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

/** Leaves out tap's variables for child processes: the keeper is not a test. */
export function keeperEnvironment (): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TAP|_TAPJS|NODE_OPTIONS)/.test(name)))
}
