/**
 * Starts programs as a user would, each in its own process. Their import of this package by name resolves to the source by the "paths"
 * of the root's tsconfig.json, or to `dist` in the compiled copy.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { scanLog } from './log-scan.js'
import { programArguments, root } from './typescript.js'

/** Removes settings of a developer's shell. A program logs at the lowest level, so that any secret in its log is found. */
const settings = {
  NODE_ENV: undefined,
  JWT_SECRET: undefined,
  DATABASE_URL: undefined,
  DATA_FOLDER: undefined,
  HOST: undefined,
  SECRETS_MASTER_KEY: undefined,
  SECRETS_PREVIOUS_KEYS: undefined,
  API_KEY: undefined,
  PAYMENT_PROVIDER: undefined,
  LOG_LEVEL: 'trace'
}

export interface Program {
  /** The address in the line `listening on`. */
  readonly address: string
  readonly pid: number
  /** Standard output and standard error so far. */
  output(): string
  /** Sends SIGTERM, or the given signal. Resolves with the exit code; null if the signal ended the program. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** Starts a TypeScript program on a free port. Resolves when it listens. It ends with the test. */
export async function startProgram (t: Test, file: string, env: NodeJS.ProcessEnv = {}): Promise<Program> {
  const { child, output, exited } = launch(t, file, env)
  const listening = new Promise<string>((resolve) => {
    const look = () => {
      const found = /^listening on (\S+)$/m.exec(output())?.[1]
      if (found !== undefined) resolve(found)
    }
    child.stdout.on('data', look)
  })
  const address = await Promise.race([
    listening,
    exited.then((code) => {
      throw new Error(`${file} ended with ${code} before it listened:\n${output()}`)
    })
  ])
  return {
    address,
    pid: child.pid!,
    output,
    stop (signal = 'SIGTERM') {
      child.kill(signal)
      return exited
    }
  }
}

/** Runs a TypeScript program until it ends by itself. */
export async function runProgram (t: Test, file: string, env: NodeJS.ProcessEnv = {}): Promise<{ code: number | null, output: string }> {
  const { output, exited } = launch(t, file, env)
  return { code: await exited, output: output() }
}

function launch (t: Test, file: string, env: NodeJS.ProcessEnv) {
  const scan = scanLog(t, `the output of ${file}`)
  const child = spawn(process.execPath, programArguments(file), {
    cwd: root,
    env: { ...process.env, ...settings, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
  }
  const exited = once(child, 'close').then(([code]: (number | null)[]) => code ?? null)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
    scan.write(text)
  })
  return { child, output: () => text, exited }
}
