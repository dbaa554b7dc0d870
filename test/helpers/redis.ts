/**
 * A real Redis server for one test. It writes to disk only on SAVE. If Redis is not installed, the test skips and names the command
 * that installs it (test/run.ts makes that a failure with CI=true).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { freePort } from './free-port.js'

const installCommand = 'apt-get install redis-server'
const startTime = 60_000 // ms until a started server responds, on a busy machine

export interface TestRedis {
  /** `redis://127.0.0.1:<port>` */
  readonly url: string
  readonly port: number
  /** Sends a command on a separate connection, to inspect the data. */
  command(name: string, ...values: (string | number)[]): Promise<unknown>
  /** Crashes the server: connections break, and data since the last SAVE is lost. Resolves when the server has ended. */
  stop(): Promise<void>
  /** Restarts the server on the same port, with the saved data. Resolves when it responds. */
  start(): Promise<void>
  /** Freezes the server with SIGSTOP: connections stay open without responses. */
  pause(): void
  /** Continues a frozen server. */
  resume(): void
}

/** Starts a server on a free port, with further settings as on its command line. It ends with the test. */
export async function startRedis (t: Test, settings: readonly string[] = []): Promise<TestRedis> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'tenantry-redis-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let child = await launch(t, port, folder, settings)
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(stop)
  await accepts(child, port)
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    command: (name, ...values) => ask(port, name, values),
    stop,
    async start () {
      child = await launch(t, port, folder, settings)
      await accepts(child, port)
    },
    pause: () => {
      child.kill('SIGSTOP')
    },
    resume: () => {
      child.kill('SIGCONT')
    }
  }
}

async function launch (t: Test, port: number, folder: string, settings: readonly string[]): Promise<ChildProcess> {
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
    folder,
    ...settings
  ], { stdio: 'ignore' })
  try {
    await once(child, 'spawn')
  } catch (error) {
    t.plan(0, `redis-server is missing: run "${installCommand}"`)
    // The throw ends the test's body. The test is already skipped, and must not become a failure.
    t.threw = () => undefined
    throw error
  }
  return child
}

async function accepts (child: ChildProcess, port: number): Promise<void> {
  const end = performance.now() + startTime
  while (performance.now() < end && child.exitCode === null) {
    if (await ask(port, 'ping', []).catch(() => null) === 'PONG') return
    await wait(10)
  }
  throw new Error(`redis-server does not respond on port ${port}`)
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
