/** A real server program for a test. It ends with the test. If the program is missing, the test skips. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'

export interface Daemon {
  readonly program: string
  /** The Debian packages of the program. Default: one with the program's name. */
  readonly packages?: string
  readonly args: readonly string[]
  /** A temporary folder of the test. */
  readonly folder: string
}

/** A temporary folder for the files of a program. */
export function daemonFolder (program: string): string {
  return mkdtempSync(join(tmpdir(), `tenantry-${program}-`))
}

/** Starts the program, and removes its folder when the test ends. With CI=true test/run.ts makes a skip a failure. */
export async function startDaemon (t: Test, { program, packages = program, args, folder }: Daemon): Promise<ChildProcess> {
  // Debian installs such programs in folders that only root's PATH has.
  const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/usr/local/sbin` }
  const child = spawn(program, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(folder, { recursive: true, force: true })
  })
  try {
    await once(child, 'spawn')
  } catch (error) {
    skipMissing(t, program, packages)
    throw error
  }
  return child
}

/** Skips the test. The caller then throws, to end the test's body. */
export function skipMissing (t: Test, program: string, packages: string): void {
  t.plan(0, `${program} is missing: run "apt-get install --no-install-recommends ${packages}"`)
  // The test is skipped: the throw must not turn it into a failure.
  t.threw = () => undefined
}

/**
 * Resolves when the program accepts connections on the port. Rejects if the program ends or takes too long.
 *
 * @param timeoutMs  milliseconds
 * @param log  returns the program's output, for the error
 */
export async function listensOn (port: number, child: ChildProcess, timeoutMs: number, log: () => string = () => ''): Promise<void> {
  for (const end = performance.now() + timeoutMs; !await takesConnections(port);) {
    if (performance.now() > end || child.exitCode !== null) throw new Error(`${child.spawnfile} does not listen on port ${port}\n${log()}`)
    await wait(10)
  }
}

async function takesConnections (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
