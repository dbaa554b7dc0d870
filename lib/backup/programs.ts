/** PostgreSQL's own programs: `pg_dump` and `pg_restore`. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { codeOf } from '../errors.js'

const execute = promisify(execFile)
const maxErrorText = 4000 // characters of a program's messages that are kept

const signals = ['SIGTERM', 'SIGINT'] as const

const remedy = "install PostgreSQL's client programs (Debian: postgresql-client, macOS: libpq), or set their folder with --pg-bin"

export interface PgProgram {
  readonly name: 'pg_dump' | 'pg_restore'
  readonly path: string
  readonly major: number
}

/** Finds the program in the folder, or on PATH; throws an error that says what to install. */
export async function findProgram (name: PgProgram['name'], folder: string | undefined): Promise<PgProgram> {
  const path = folder === undefined ? name : join(folder, name)
  const place = folder === undefined ? 'on PATH' : `in ${folder}`
  const version = await execute(path, ['--version']).then(({ stdout }) => stdout, (error: Error) => {
    if (codeOf(error) === 'ENOENT') return ''
    const reason = error.message.trim().replaceAll('\n', ' ')
    throw new Error(`${name} ${place} does not run (${reason}): ${remedy}`)
  })
  const major = Number.parseInt(/(\d+)(?:\.\d+|\w+)/.exec(version)?.[1] ?? '', 10)
  if (Number.isNaN(major)) throw new Error(`${name} is missing ${place}: ${remedy}`)
  return { name, path, major }
}

const newline = 0x0a
const maxHead = 65_536 // bytes; only the start of a line is examined, since a row can have a gigabyte

interface RunOptions {
  readonly onLine?: (line: Buffer) => void
  readonly abort?: AbortSignal
}

/**
 * Runs the program and calls `onLine` with the start of each output line. If it fails, throws an error with its messages. SIGTERM,
 * SIGINT and an abort end the program.
 */
export async function runProgram (
  { name, path }: PgProgram,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
  { onLine = () => {}, abort }: RunOptions = {}
): Promise<void> {
  // The password is not on the command line, which every user of the machine can read.
  const child = spawn(path, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let head = Buffer.alloc(0)
  // Not readline, which also ends lines at other characters.
  child.stdout.on('data', (chunk: Buffer) => {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      const rest = chunk.subarray(from, end)
      onLine(head.length === 0 ? rest : Buffer.concat([head, rest]))
      head = Buffer.alloc(0)
      from = end + 1
    }
    if (head.length < maxHead) head = Buffer.concat([head, chunk.subarray(from)])
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-maxErrorText)
  })
  // Otherwise the program would go on without its command, and a restore would commit unchecked.
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal)
  }
  for (const signal of signals) process.on(signal, end)
  // Not the option of `spawn`, which rejects before the program has ended.
  abort?.addEventListener('abort', () => child.kill())
  const [code, signal] = await once(child, 'close').finally(() => {
    for (const each of signals) process.off(each, end)
  })
  if (code === 0) return
  const failed = signal === null ? `${name} failed` : `${name} was ended by ${signal}`
  throw new Error([failed, errors.trim()].filter((text) => text !== '').join(': '))
}
