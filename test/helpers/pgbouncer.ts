/**
 * Real PgBouncer for one test: one process on an unprivileged port, with its files in a temporary folder. If PgBouncer is not
 * installed, the test skips and names the command that installs it (test/run.ts makes that a failure with CI=true).
 */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Test } from 'tap'
import { daemonFolder, startDaemon } from './daemon.js'
import { freePort } from './free-port.js'

const startTimeMs = 60_000 // on a busy machine

export interface PgBouncer {
  readonly connectionString: string
  /** Runs a command of PgBouncer's console, such as `reconnect`. */
  command(text: string): Promise<void>
  /** Changes the pool mode for new sessions. */
  poolMode(mode: PoolMode): Promise<void>
}

export type PoolMode = 'session' | 'transaction'

/**
 * Starts PgBouncer in front of the database; it ends with the test.
 *
 * @param sessions of the database, at most. Default: that of PgBouncer
 */
export async function startPgBouncer (t: Test, database: string, mode: PoolMode, sessions = 20): Promise<PgBouncer> {
  const folder = daemonFolder('pgbouncer')
  chmodSync(folder, 0o755)
  const target = new URL(database)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  const configure = (poolMode: PoolMode) =>
    writeFileSync(
      file,
      `[databases]
${target.pathname.slice(1)} = host=${target.hostname} port=${target.port} user=${target.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
admin_users = admin
ignore_startup_parameters = extra_float_digits
pool_mode = ${poolMode}
server_login_retry = 1
default_pool_size = ${sessions}
${process.getuid?.() === 0 ? 'user = nobody' : ''}
`,
      { mode: 0o644 }
    )
  configure(mode)
  const child = await startDaemon(t, { program: 'pgbouncer', args: [file], folder })
  let log = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-4000)
  })
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
    if (performance.now() > end || child.exitCode !== null) throw new Error(`PgBouncer does not accept connections:\n${log}`)
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
