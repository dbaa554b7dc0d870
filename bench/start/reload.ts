/** The time of `tenantry dev` from a save of the example's document to the new version's first response, and of `npm start` in a clone. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const pollMs = 5
const patienceMs = 30_000
const root = new URL('../../', import.meta.url)
const example = new URL('examples/server/tenantry.json', root)

/** Milliseconds of each reload. Each adds a route to the document; the reload ends with the route's first response. */
export async function measureReloads (count: number): Promise<number[]> {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-bench-dev-'))
  const file = join(folder, 'tenantry.json')
  const text = await readFile(example, 'utf8')
  await writeFile(file, text)
  const program = fileURLToPath(new URL('dist/bin/tenantry.js', root))
  const server = await listening(program, ['dev', '--port', '0'], folder, { JWT_SECRET: 's'.repeat(32) })
  const times: number[] = []
  try {
    for (let index = 0; index <= count; index++) {
      const saved = performance.now()
      const path = `/version-${index}`
      await writeFile(file, text.replace('"routes": [', `"routes": [ { "path": "${path}", "method": "get", "response": { "version": ${index} } },`))
      while (!await isServing(`${server.address}${path}`)) {
        if (performance.now() - saved > patienceMs) throw new Error(`${path} is not served after ${patienceMs / 1000} s`)
        await sleep(pollMs)
      }
      // The first one loads code that a start does not need.
      if (index > 0) times.push(performance.now() - saved)
    }
  } finally {
    await server.end()
    await rm(folder, { recursive: true })
  }
  return times
}

/** Milliseconds of `npm start` in this clone until it listens, after the package is built. */
export async function measureStarts (count: number): Promise<number[]> {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-bench-example-'))
  const times: number[] = []
  try {
    for (let index = 0; index <= count; index++) {
      const start = performance.now()
      const server = await listening('npm', ['start'], fileURLToPath(root), { PORT: '0', DATA_FOLDER: folder })
      // The first one creates and fills the database.
      if (index > 0) times.push(performance.now() - start)
      await server.end()
    }
  } finally {
    await rm(folder, { recursive: true })
  }
  return times
}

async function isServing (url: string): Promise<boolean> {
  try {
    const response = await fetch(url)
    await response.body?.cancel()
    return response.ok
  } catch {
    // The previous server has ended, and the next one does not listen yet.
    return false
  }
}

export interface Listening {
  readonly address: string
  /** The program's output. */
  readonly output: readonly string[]
  end(): Promise<void>
}

/** Resolves when the program prints its address. */
export async function listening (
  program: string,
  args: readonly string[],
  folder: string,
  settings: NodeJS.ProcessEnv
): Promise<Listening> {
  // A process group of its own: npm starts the server as a grandchild.
  const env = { ...process.env, LOG_LEVEL: 'warn', ...settings }
  const child = spawn(program, args, { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  const output: string[] = []
  const address = await new Promise<string>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`${program} ${args.join(' ')} has ended:\n${output.join('\n')}`)))
    createInterface(child.stdout).on('line', (line) => {
      output.push(line)
      const [, found] = /^listening on (\S+)$/.exec(line) ?? []
      if (found !== undefined) resolve(found)
    })
  })
  return { address, output, end: async () => await end(child) }
}

async function end (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.pid === undefined) return
  const ended = once(child, 'close')
  process.kill(-child.pid, 'SIGTERM')
  await ended
}
