/** From an empty folder to the first 201, by the commands of the README with the packed package. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { listening } from './reload.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const run = promisify(execFile)

/** Milliseconds. */
export interface Step {
  readonly command: string
  readonly wall: number
  /** The time without npm's. */
  readonly ours: number
}

/** The commands of a new user, with their times. */
export async function measureFirstCall (): Promise<Step[]> {
  const parent = await mkdtemp(join(tmpdir(), 'tenantry-bench-first-'))
  try {
    const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', parent], { cwd: root })
    const [{ filename }]: [{ filename: string }] = JSON.parse(stdout)
    return await follow(parent, join(parent, filename))
  } finally {
    await rm(parent, { recursive: true })
  }
}

async function follow (parent: string, tarball: string): Promise<Step[]> {
  const folder = join(parent, 'my-api')
  const program = join(folder, 'node_modules/tenantry/dist/bin/tenantry.js')
  const created = await time(() => run('npx', ['--yes', '--package', tarball, 'tenantry', 'init', 'my-api'], { cwd: parent }))
  // The package is not published under this version, so package.json names its tarball.
  const installed = await time(() => run('npm', ['install', tarball], { cwd: folder }))
  const init = await time(() => run(process.execPath, [program, 'init', 'another'], { cwd: parent }))
  const started = await time(() => listening('npm', ['start', '--', '--port', '0'], folder, {}))
  const server = started.result
  try {
    const args = ['token', '--sub', 'anna', '--tenant', 'acme', '--permissions', 'notes:write']
    const token = await time(() => run('npx', ['tenantry', ...args], { cwd: folder }))
    const direct = await time(() => run(process.execPath, [program, ...args], { cwd: folder }))
    const call = await time(() => fetch(`${server.address}/notes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token.result.stdout.trim()}`, 'content-type': 'application/json' },
      body: '{"text":"Buy milk"}'
    }))
    if (call.result.status !== 201) throw new Error(`the first call returned ${call.result.status}: ${await call.result.text()}`)
    return [
      { command: 'npm create tenantry my-api', wall: created.ms, ours: init.ms },
      { command: 'cd my-api && npm install', wall: installed.ms, ours: 0 },
      { command: 'npm start', wall: started.ms, ours: started.ms },
      { command: 'npx tenantry token', wall: token.ms, ours: direct.ms },
      { command: 'curl', wall: call.ms, ours: call.ms }
    ]
  } finally {
    await server.end()
  }
}

async function time<Result> (work: () => Promise<Result>): Promise<{ readonly result: Result, readonly ms: number }> {
  const start = performance.now()
  const result = await work()
  return { result, ms: performance.now() - start }
}
