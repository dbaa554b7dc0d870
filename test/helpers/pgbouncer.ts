/**
 * Real PgBouncer for tests: one process of a test's own, on an unprivileged port, with its files in a temporary folder.
 * Without PgBouncer a test skips and says which command installs it (test/run.ts makes that a failure with CI=true).
 */
import type { Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from './free-port.js'

const installCommand = 'apt-get install --no-install-recommends pgbouncer'
const startTimeMs = 10_000

export interface PgBouncer {
  readonly connectionString: string
  /** Runs a command of its console, such as `reconnect`. */
  command (text: string): Promise<void>
  /** Changes how it gives sessions away, for sessions that begin from now on. */
  poolMode (mode: PoolMode): Promise<void>
}

export type PoolMode = 'session' | 'transaction'

/** Starts PgBouncer in front of the database; it ends with the test. */
export async function startPgBouncer (t: Test, database: string, mode: PoolMode): Promise<PgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'tenantry-pgbouncer-'))
  chmodSync(folder, 0o755)
  const target = new URL(database)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  const configure = (poolMode: PoolMode) => writeFileSync(file, `[databases]
${target.pathname.slice(1)} = host=${target.hostname} port=${target.port} user=${target.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
admin_users = admin
ignore_startup_parameters = extra_float_digits
pool_mode = ${poolMode}
${process.getuid?.() === 0 ? 'user = nobody' : ''}
`, { mode: 0o644 })
  configure(mode)
  // Debian has it where only root looks.
  const child = spawn('pgbouncer', [file], { env: { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` }, stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => { log = (log + text).slice(-4000) })
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
    t.plan(0, `PgBouncer is missing: run "${installCommand}"`)
    // The throw below ends the test's body; the test itself has ended, as skipped, and must not turn into a failure.
    t.threw = () => undefined
    throw error
  }
  const console = `postgres://admin@127.0.0.1:${port}/pgbouncer`
  const command = async (text: string): Promise<void> => {
    const client = new pg.Client({ connectionString: console })
    await client.connect()
    try {
      await client.query(text)
    } finally {
      await client.end()
    }
  }
  for (const end = performance.now() + startTimeMs; ;) {
    if (await command('show version').then(() => true, () => false)) break
    if (performance.now() > end || child.exitCode !== null) throw new Error(`PgBouncer does not take connections:\n${log}`)
    await wait(10)
  }
  const address = new URL(database)
  address.host = `127.0.0.1:${port}`
  return {
    connectionString: address.href,
    command,
    async poolMode (poolMode) {
      configure(poolMode)
      await command('reload')
    }
  }
}
