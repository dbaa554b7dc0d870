/**
 * Real Redis for tests: a server of one test's own, which keeps nothing on disk unless it is sent SAVE. Where Redis is not installed a test
 * skips and says which command installs it (test/run.ts makes that a failure with CI=true).
 */
import type { Test } from 'tap'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from './free-port.js'

const installCommand = 'apt-get install redis-server'
const startTime = 10_000 // ms in which a server that starts answers

export interface TestRedis {
  /** `redis://127.0.0.1:<port>` */
  readonly url: string
  readonly port: number
  /** Sends a command on a connection of its own: to look at what is there. */
  command(name: string, ...values: (string | number)[]): Promise<unknown>
  /** Ends it, as a crash does: connections break, and what it held since the last SAVE is gone. Resolves when it is gone. */
  stop(): Promise<void>
  /** Starts it again on the same port, with what was saved; resolves when it answers. */
  start(): Promise<void>
  /** It hangs: connections stay open, nothing is answered (SIGSTOP). */
  pause(): void
  /** It goes on where it was paused. */
  resume(): void
}

/** Starts a server on a free port; it ends with the test. */
export async function startRedis (t: Test): Promise<TestRedis> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'tenantry-redis-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let child = await launch(t, port, folder)
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(stop)
  await answers(child, port)
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    command: (name, ...values) => ask(port, name, values),
    stop,
    async start () {
      child = await launch(t, port, folder)
      await answers(child, port)
    },
    pause: () => {
      child.kill('SIGSTOP')
    },
    resume: () => {
      child.kill('SIGCONT')
    }
  }
}

async function launch (t: Test, port: number, folder: string): Promise<ChildProcess> {
  const child = spawn('redis-server', [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--repl-diskless-sync-delay',
    '0',
    '--dir',
    folder
  ], { stdio: 'ignore' })
  try {
    await once(child, 'spawn')
  } catch (error) {
    t.plan(0, `redis-server is missing: run "${installCommand}"`)
    // What is thrown ends the test's body; the test itself has ended, as skipped, and must not turn into a failure.
    t.threw = () => undefined
    throw error
  }
  return child
}

async function answers (child: ChildProcess, port: number): Promise<void> {
  const end = performance.now() + startTime
  while (performance.now() < end && child.exitCode === null) {
    if (await ask(port, 'ping', []).catch(() => null) === 'PONG') return
    await wait(10)
  }
  throw new Error(`redis-server does not answer on port ${port}`)
}

async function ask (port: number, name: string, values: (string | number)[]): Promise<unknown> {
  const client = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 })
  client.on('error', () => {})
  try {
    await client.connect()
    return await client.call(name, ...values)
  } finally {
    client.disconnect()
  }
}
