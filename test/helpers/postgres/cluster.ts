/** One PostgreSQL server for tests, with its own data folder. It starts quickly, and its data is not durable. */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { chown, mkdir, mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../free-port.js'
import type { Binaries } from './binaries.js'
import { prepareBinaries } from './binaries.js'

/** Milliseconds until a server that has not started counts as failed. A busy machine takes many seconds. */
const startTimeoutMs = 120_000
const retryMs = 50

/** Linux's folder for files in memory. A database has a thousand small files, which take ten times as long to copy on a disk. */
const memoryFolder = '/dev/shm'
const leastRoom = 2 ** 31 // bytes; the databases and the log of a whole run take a quarter of this

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '64MB',
  // No data must survive a crash, so the server does not wait for the disk.
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_size: '128MB',
  max_wal_senders: '0',
  autovacuum: 'off',
  jit: 'off',
  // Not UTC, so that a result that depends on the server's time zone fails a test.
  timezone: 'America/New_York'
}

/** How to stop a server: `fast` ends its sessions in order, `immediate` drops them, `kill` is a crash. */
export type StopMode = 'fast' | 'immediate' | 'kill'

const stopSignals = { fast: 'SIGINT', immediate: 'SIGQUIT', kill: 'SIGKILL' } as const satisfies Record<StopMode, NodeJS.Signals>

export interface ClusterOptions {
  /** Server settings that override those of the tests. */
  readonly settings?: Readonly<Record<string, string>>
  /** The folder of other programs, instead of the package's. */
  readonly programs?: string
}

/** A PostgreSQL server. It can be stopped and started again; the port stays the same. */
export class Cluster {
  readonly port: number
  readonly #binaries: Binaries
  readonly #folder: string
  readonly #settings: Readonly<Record<string, string>>
  #server: ChildProcess | undefined

  private constructor (port: number, binaries: Binaries, folder: string, options: ClusterOptions) {
    this.port = port
    this.#binaries = binaries
    this.#folder = folder
    this.#settings = { ...settings, ...options.settings }
  }

  /** Creates the data folder, without starting the server. */
  static async create (options: ClusterOptions = {}): Promise<Cluster> {
    const { programs } = options
    const prepared = await prepareBinaries()
    const binaries = programs === undefined
      ? prepared
      : { ...prepared, initdb: join(programs, 'initdb'), postgres: join(programs, 'postgres') }
    const folder = await mkdtemp(join(await clusterFolder(), 'tenantry-postgres-'))
    const data = join(folder, 'data')
    await mkdir(data)
    if (binaries.account !== undefined) {
      for (const path of [folder, data]) await chown(path, binaries.account.uid, binaries.account.gid)
    }
    const cluster = new Cluster(await freePort(), binaries, folder, options)
    await cluster.#initialise(data)
    return cluster
  }

  /** The process id of the running server. */
  get pid (): number | undefined {
    return this.#server?.pid
  }

  connectionString (database: string, role = 'postgres'): string {
    return `postgres://${role}:${role}@127.0.0.1:${this.port}/${database}`
  }

  async start (): Promise<void> {
    if (this.#server !== undefined) return
    const end = Date.now() + startTimeoutMs
    for (;;) {
      try {
        return await this.#launch()
      } catch (error) {
        // The processes of a killed server end a moment after it.
        if (Date.now() > end || !String(error).includes('pre-existing shared memory block')) throw error
        await sleep(retryMs)
      }
    }
  }

  async #launch (): Promise<void> {
    const flags = Object.entries(this.#settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = this.#spawn(this.#binaries.postgres, ['-D', join(this.#folder, 'data'), '-p', String(this.port), ...flags])
    this.#server = server
    let log = ''
    await new Promise<void>((resolve, reject) => {
      const fail = (): void => reject(new Error(`PostgreSQL did not start\n${log}`))
      const timer = setTimeout(fail, startTimeoutMs)
      server.stderr?.setEncoding('utf8').on('data', (text: string) => {
        log = (log + text).slice(-4000)
        if (!log.includes('ready to accept connections')) return
        clearTimeout(timer)
        resolve()
      })
      server.once('error', reject)
      server.once('exit', () => {
        clearTimeout(timer)
        if (this.#server === server) this.#server = undefined
        fail()
      })
      // The log must be read after the start too: a full pipe would block the server.
      server.once('spawn', () => server.stdout?.resume())
    })
  }

  async stop (mode: StopMode = 'fast'): Promise<void> {
    const server = this.#server
    if (server === undefined) return
    const exited = new Promise<void>(resolve => server.once('exit', () => resolve()))
    server.kill(stopSignals[mode])
    await exited
  }

  /** Stops the server and deletes its data. */
  async remove (): Promise<void> {
    await this.stop('immediate')
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }

  async #initialise (data: string): Promise<void> {
    const flags = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C', '--no-sync', '--no-instructions']
    const initdb = this.#spawn(this.#binaries.initdb, [`--pgdata=${data}`, ...flags])
    let log = ''
    initdb.stdout?.resume()
    initdb.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
    await new Promise<void>((resolve, reject) => {
      initdb.once('error', reject)
      initdb.once('exit', code => code === 0 ? resolve() : reject(new Error(`initdb failed\n${log}`)))
    })
  }

  #spawn (program: string, args: readonly string[]): ChildProcess {
    return spawn(program, args, {
      ...this.#binaries.account,
      cwd: this.#folder,
      env: { ...process.env, LC_ALL: 'C', LC_MESSAGES: 'C' },
      stdio: ['ignore', 'pipe', 'pipe']
    })
  }
}

/** The folder in memory if it has enough room, which containers often lack; otherwise the folder for temporary files. */
async function clusterFolder (): Promise<string> {
  try {
    const { bavail, bsize } = await statfs(memoryFolder)
    return bavail * bsize >= leastRoom ? memoryFolder : tmpdir()
  } catch {
    return tmpdir()
  }
}
