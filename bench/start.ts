/**
 * `npm run bench:start`: the import time of the built package, the time of `tenantry start` on PostgreSQL until it listens, and the memory
 * of the idle server. CPU time is printed beside wall time, since other programs affect it less.
 * Also the first hour: a reload of `tenantry dev`, `npm start` of a clone after an unchanged build, and a new user's way to the first 201,
 * most of which is npm. Arguments: the rounds (default 7), and one part to run alone: server, reload, clone or first-call.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startDatabase } from './database.js'
import { measureFirstCall } from './start/first-call.js'
import { measureReloads, measureStarts } from './start/reload.js'
import { median } from './statistics.js'
import document from './tenantry/document.js'

const rounds = Number(process.argv[2] ?? 7)
const [, , , part] = process.argv
const has = (name: string): boolean => part === undefined || part === name
const idleMs = [5000, 60_000] // after the start, when the memory is read; V8 shrinks its heap after about 25 s of idling
const microsecondsPerTick = 10_000

interface Figures {
  /** Milliseconds. */
  readonly wall: number
  /** Milliseconds. */
  readonly cpu: number
  /** Megabytes. */
  readonly memory: number
}

const built = new URL('../dist/', import.meta.url)
const limits = { import: '400 ms', start: '1000 ms', memory: '110 MB', reload: '1000 ms', clone: '5000 ms' }
const firstCallLimits = { commands: 5, wall: 60_000, ours: 5000 } // milliseconds

const folder = await mkdtemp(join(tmpdir(), 'tenantry-bench-'))
const database = await startDatabase()
try {
  if (has('server')) await measureServer()
  if (has('reload')) printTimes(`a reload of tenantry dev, at most ${limits.reload}`, await measureReloads(2 * rounds + 1))
  if (has('clone')) printTimes(`npm start after an unchanged build, at most ${limits.clone}`, await measureStarts(rounds))
  if (has('first-call')) await printFirstCall()
} finally {
  await database.stop()
  await rm(folder, { recursive: true })
}

async function measureServer (): Promise<void> {
  await writeFile(join(folder, 'tenantry.json'), JSON.stringify(document))
  const imports: Figures[] = []
  const starts: Figures[] = []
  for (let round = 0; round < rounds; round++) {
    imports.push(await measureImport())
    starts.push(await measureStart())
  }
  const idle = await measureIdle()
  print(`import of tenantry, at most ${limits.import}`, imports)
  print(`tenantry start until it listens, at most ${limits.start}`, starts)
  console.log(
    `an idle server, at most ${limits.memory}\n${idle.map((memory, index) => `  ${Math.round(memory)} MB after ${Number(idleMs[index]) / 1000} s`).join('\n')}`
  )
}

async function measureImport (): Promise<Figures> {
  const program = `
    const start = performance.now()
    const before = process.cpuUsage()
    await import(${JSON.stringify(new URL('lib/index.js', built).href)})
    const wall = performance.now() - start
    const { user, system } = process.cpuUsage(before)
    console.log(JSON.stringify({ wall, cpu: (user + system) / 1000, memory: process.memoryUsage.rss() / 1e6 }))`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(createInterface(child.stdout), 'line')
  return JSON.parse(line)
}

async function measureStart (): Promise<Figures> {
  const start = performance.now()
  const { child, ended } = await startServer()
  const wall = performance.now() - start
  const figures = { wall, cpu: await cpuOf(child.pid), memory: await memoryOf(child.pid) }
  child.kill('SIGKILL')
  await ended
  return figures
}

/** Megabytes at each of the times. */
async function measureIdle (): Promise<number[]> {
  const { child, ended } = await startServer()
  const start = performance.now()
  const figures: number[] = []
  for (const ms of idleMs) {
    await sleep(start + ms - performance.now())
    figures.push(await memoryOf(child.pid))
  }
  child.kill('SIGKILL')
  await ended
  return figures
}

/** Resolves when it listens. */
async function startServer (): Promise<{ readonly child: ChildProcess, readonly ended: Promise<unknown> }> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('bin/tenantry.js', built)), 'start', '--port', '0'], {
    cwd: folder,
    env: {
      ...process.env,
      DATABASE_URL: database.connectionString,
      JWT_SECRET: 's'.repeat(32),
      SECRETS_MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
      LOG_LEVEL: 'warn'
    },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = once(child, 'exit')
  for await (const line of createInterface(child.stdout)) if (line.startsWith('listening')) break
  return { child, ended }
}

/** Only Linux reports on another process; elsewhere the figure is NaN. */
async function cpuOf (pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ').map(Number)
  return (fields[11]! + fields[12]!) * microsecondsPerTick / 1000
}

async function memoryOf (pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1]) * 1024 / 1e6
}

function print (title: string, figures: readonly Figures[]): void {
  const of = (figure: keyof Figures) => Math.round(median(figures.map((each) => each[figure])))
  const least = (figure: keyof Figures) => Math.round(Math.min(...figures.map((each) => each[figure])))
  console.log(
    `${title}\n  ${of('wall')} ms (least ${least('wall')}), CPU ${of('cpu')} ms (least ${least('cpu')}), resident ${of('memory')} MB`
  )
}

function printTimes (title: string, times: readonly number[]): void {
  console.log(`${title}\n  ${Math.round(median(times))} ms (${Math.round(Math.min(...times))} to ${Math.round(Math.max(...times))})`)
}

async function printFirstCall (): Promise<void> {
  const steps = await measureFirstCall()
  const total = (figure: 'wall' | 'ours') => steps.reduce((sum, step) => sum + step[figure], 0)
  const { commands, wall, ours } = firstCallLimits
  console.log(`from an empty folder to the first 201, at most ${commands} commands and ${wall} ms, of which ours ${ours} ms`)
  for (const step of steps) console.log(`  ${step.command}: ${Math.round(step.wall)} ms, of which ours ${Math.round(step.ours)} ms`)
  console.log(`  ${steps.length} commands, ${Math.round(total('wall'))} ms, of which ours ${Math.round(total('ours'))} ms`)
}
