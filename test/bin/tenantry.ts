/** Runs the command `tenantry` as a user would: in its own process, in a folder of the test. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'
import { run } from '../../bin/program.js'
import { programArguments } from '../helpers/typescript.js'

const command = programArguments('bin/tenantry.ts')
const signals = ['SIGTERM', 'SIGINT'] as const

/** Settings of a developer's shell that would disturb tests. */
const unset = { NODE_ENV: undefined, JWT_SECRET: undefined, DATABASE_URL: undefined, HOST: undefined, PORT: undefined, LOG_LEVEL: 'warn' }

export interface Ended {
  /** null if a signal ended it. */
  readonly code: number | null
  /** Lines of standard output. */
  readonly output: string[]
  /** Lines of standard error. */
  readonly errors: string[]
}

export interface Running {
  /** Resolves with the first (or `count`th) line of standard output that matches. Rejects if the process ends without it. */
  line(pattern: RegExp, count?: number): Promise<string>
  /** The same for standard error. */
  errorLine(pattern: RegExp, count?: number): Promise<string>
  kill(signal: NodeJS.Signals): void
  readonly ended: Promise<Ended>
}

/** The same in this process, which is faster: for commands with an absolute document path. */
export async function here (words: string[], env: Record<string, string> = {}): Promise<Ended> {
  const output: string[] = []
  const errors: string[] = []
  const known = signals.map((signal) => process.listeners(signal))
  const code = await run(words, env, {
    print: (text) => {
      output.push(text)
    },
    note: (text) => {
      errors.push(text)
    }
  })
  // The command's own process would end with it.
  for (const [index, signal] of signals.entries()) {
    for (const listener of process.listeners(signal)) if (known[index]?.includes(listener) === false) process.off(signal, listener)
  }
  return { code, output: linesOf(output.join('\n')), errors: linesOf(errors.join('\n')) }
}

/** Runs a command to its end. `input` is its standard input; default: empty. */
export function tenantry (t: Test, folder: string, words: string[], env: NodeJS.ProcessEnv = {}, input?: string | Buffer): Promise<Ended> {
  return launch(t, folder, words, env, input).ended
}

export function launch (t: Test, folder: string, words: string[], env: NodeJS.ProcessEnv = {}, input?: string | Buffer): Running {
  const child = spawn(process.execPath, [...command, ...words], {
    cwd: folder,
    env: { ...process.env, ...unset, ...env },
    stdio: ['pipe', 'pipe', 'pipe']
  })
  // A command that has ended without reading its input closes it.
  child.stdin.on('error', () => {}).end(input)
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const ended = once(child, 'close').then(([code]: (number | null)[]): Ended => ({
    code: code ?? null,
    output: linesOf(output),
    errors: linesOf(errors)
  }))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const seen = (stream: Readable, text: () => string, pattern: RegExp, count = 1): Promise<string> => {
    const found = new Promise<string>((resolve) => {
      const look = () => {
        const line = linesOf(text()).filter((line) => pattern.test(line))[count - 1]
        if (line === undefined) return
        stream.off('data', look)
        resolve(line)
      }
      stream.on('data', look)
      look()
    })
    return Promise.race([
      found,
      ended.then((result) => {
        throw new Error(`it ended before ${pattern}: ${JSON.stringify(result)}`)
      })
    ])
  }
  return {
    ended,
    kill: (signal) => {
      child.kill(signal)
    },
    line: (pattern, count) => seen(child.stdout, () => output, pattern, count),
    errorLine: (pattern, count) => seen(child.stderr, () => errors, pattern, count)
  }
}

function linesOf (text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}
