/**
 * A shell for the documentation's commands. It replaces `npx tenantry`, `curl` and `openssl`, so that they run on a machine with only Node.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { programArguments } from '../helpers/typescript.js'

const command = [process.execPath, ...programArguments('bin/tenantry.ts')].map((word) => `"${word}"`).join(' ')
const curl = fileURLToPath(new URL('./curl.js', import.meta.url))

/** The address in the documentation; a test's server uses a free port instead. */
const documented = 'http://127.0.0.1:3000'

export interface Shell {
  /** Runs a command to its end. Returns its output, without the last line break. */
  run(text: string): Promise<{ code: number, output: string }>
  /** Starts a server in the background. Resolves with its line `listening on`. */
  start(text: string): Promise<string>
}

/** Opens a shell in a folder; variables persist between commands. The test's end closes it and everything that it started. */
export async function openShell (t: Test, folder: string): Promise<Shell> {
  const bin = `${folder}/.bin`
  mkdirSync(bin)
  const program = (name: string, script: string) => {
    writeFileSync(`${bin}/${name}`, `#!/bin/sh\n${script}\n`)
    chmodSync(`${bin}/${name}`, 0o755)
  }
  program('npx', `shift\nexec ${command} "$@"`)
  program('curl', `exec "${process.execPath}" "${curl}" "$@"`)
  program('openssl', `exec "${process.execPath}" -e "console.log(require('crypto').randomBytes(48).toString('base64'))"`)

  const env = {
    ...process.env,
    PATH: `${bin}:${process.env.PATH ?? ''}`,
    PORT: '0',
    JWT_SECRET: undefined,
    NODE_ENV: undefined,
    DATABASE_URL: undefined,
    LOG_LEVEL: 'warn'
  }
  const child = spawn('sh', [], { cwd: folder, env, stdio: ['pipe', 'pipe', 'inherit'], detached: true })
  t.teardown(async () => {
    // The group: the shell, and the server that it started.
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    await once(child, 'close')
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  let address = documented

  async function until (isLast: (line: string) => boolean): Promise<string[]> {
    const seen: string[] = []
    for (;;) {
      const { value, done } = await lines.next()
      if (done === true) throw new Error(`the shell ended after:\n${seen.join('\n')}`)
      if (isLast(value)) return [...seen, value]
      seen.push(value)
    }
  }

  return {
    async run (text) {
      child.stdin.write(`${text.replaceAll(documented, address)} 2>&1\necho "\n:done $?"\n`)
      const seen = await until((line) => line.startsWith(':done '))
      return { code: Number(seen.at(-1)!.slice(6)), output: seen.slice(0, -1).join('\n').trim().replaceAll(address, documented) }
    },
    async start (text) {
      child.stdin.write(`(${text} 2>&1; echo ":ended $?") &\n`)
      const seen = await until((line) => line.startsWith('listening on ') || line.startsWith(':ended '))
      const line = seen.at(-1)!
      if (line.startsWith(':ended ')) throw new Error(seen.join('\n'))
      address = line.slice('listening on '.length)
      return line
    }
  }
}
