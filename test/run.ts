/**
 * `npm test` runs every test file except those of test/faults, or the named files and folders. `npm run test:faults` (`--faults`) runs the
 * files of test/faults one by one; they take minutes.
 *
 * Three more processes than cores run at a time, because many tests wait for servers. A process asks for one file after another
 * (test/files.ts), because its start, and the first run of all code, take seconds of CPU time. Its files are neighbours, which use the same
 * code. A file whose name ends with `.alone.test.ts` has a process of its own.
 *
 * It prints a line for each file, the whole output of a failed file, and at the end the line that continuous integration reads:
 * `N passed, N failed`, with `, N skipped` if tests were skipped. It fails if a test failed or none ran. With CI=true it also fails if a
 * test was skipped, except tests that need Google's emulator of Firestore.
 *
 * Files run from a compiled copy of the project, made when the run began (test/compile.ts): the runner of tap would load each file through
 * four loaders, which takes three seconds.
 */
import type { ChildProcess } from 'node:child_process'
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { Duplex } from 'node:stream'
import { prepareData } from '../lib/database/embedded-prepared.js'
import { compileProject } from './compile.js'
import { leaveSharedServer } from './helpers/postgres/shared.js'
import { needsGoogle } from './helpers/skips.js'
import { compiledArguments, root } from './helpers/typescript.js'
import { withSourceLines } from './source-lines.js'

const filesPerProcess = 40 // so that its memory is bounded
const testTimeout = 1200 // s of one file, enforced by tap itself: many times the longest, since a busy machine must not fail it
const faultTimeout = 1800 // s of one file of test/faults

const isFault = (file: string) => file.startsWith('test/faults/')
const isAlone = (file: string) => isFault(file) || file.endsWith('.alone.test.ts')
const faults = process.argv.includes('--faults')
const fileTimeout = faults ? faultTimeout : testTimeout
const named = process.argv.slice(2).filter((argument) => argument !== '--faults').map((path) => relative(root, resolve(path)))
const files = named.length > 0 ? named.flatMap(testsAt) : testsAt('test').filter((file) => isFault(file) === faults)

/** Tests of the built package. It is built once, before any test reads it. */
const ofPackage = ['test/bin/init.test.ts', 'test/package/consumer.test.ts']
if (files.some((file) => ofPackage.includes(file))) {
  execFileSync('npm', ['run', '--silent', 'build', '--', '--if-changed'], { cwd: root, stdio: 'inherit' })
}

/** The test files in a folder, or the file itself. */
function testsAt (path: string): string[] {
  const found = statSync(join(root, path), { throwIfNoEntry: false })
  if (found === undefined) {
    console.error(`${path} does not exist`)
    process.exit(1)
  }
  if (found.isFile()) return [path]
  const files = readdirSync(join(root, path), { recursive: true, encoding: 'utf8' })
  return files.filter((file) => file.endsWith('.test.ts')).sort().map((file) => join(path, file))
}

/** The beginning of the output of a file. */
const title = '\n# Subtest: '

const running = new Set<ChildProcess>()
const totals = { pass: 0, fail: 0, skip: 0, todo: 0 }
// Skips of tests that need Google's emulator.
let allowedSkips = 0
// Concurrent faults would disturb one another.
const atOnce = faults ? 1 : availableParallelism() + 3
/** The files of each process that runs at a time. */
const queues = Array.from({ length: atOnce }, (_, index) =>
  files.slice(Math.floor(files.length * index / atOnce), Math.floor(files.length * (index + 1) / atOnce)))
let wasInterrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    wasInterrupted = true
    for (const queue of queues) queue.length = 0
    for (const child of running) child.kill(signal)
  })
}

// In the project, where it stays: the compiled copy of this run is deleted at the end.
await prepareData()
const compiled = await compileProject(root)
await Promise.all(queues.map(async (queue) => {
  while (refill(queue)) await runProcess(queue)
}))
await rm(compiled, { recursive: true })
await leaveSharedServer()

const { pass, fail, skip, todo } = totals
if (pass + fail === 0) console.log('no test ran')
const skipped = skip + todo
const refused = process.env.CI === 'true' && skipped > allowedSkips
if (refused) console.log('CI=true: a skipped test is a failure')
console.log(`\n${pass} passed, ${fail} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`)
process.exitCode = wasInterrupted || fail > 0 || pass === 0 || refused ? 1 : 0

/** Runs files of the queue in one process, and reports each. */
async function runProcess (queue: string[]): Promise<void> {
  const child = spawn(process.execPath, [...compiledArguments(compiled, 'test/files.ts'), String(fileTimeout)], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit', 'pipe']
  })
  const [, stdout, , requests] = child.stdio
  if (stdout === null || !(requests instanceof Duplex)) throw new Error('the process has no pipes')
  running.add(child)
  const started: string[] = []
  let reported = 0
  let hasFailed = false
  let output = ''
  let killer: NodeJS.Timeout | undefined
  function reportNext (section: string): void {
    if (!report(started[reported++] ?? 'output of no file', section)) hasFailed = true
  }
  requests.on('error', () => {}) // The process has ended, which its exit code explains.
  requests.on('data', () => {
    clearTimeout(killer)
    // Longer than the time that tap gives a file.
    killer = setTimeout(() => child.kill('SIGKILL'), 3 * fileTimeout * 1000)
    const file = nextIn(queue, started)
    if (file !== undefined) started.push(file)
    requests.write(file ?? 'end')
  })
  stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk
    // The text before a title belongs to the file before, and the text before the first title to none.
    for (let end = output.indexOf(title, 1); end !== -1; end = output.indexOf(title, 1)) {
      if (output.startsWith(title)) reportNext(output.slice(0, end))
      output = output.slice(end)
    }
  })
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  clearTimeout(killer)
  running.delete(child)
  while (reported < started.length) {
    reportNext(output)
    output = ''
  }
  if (exitCode === 0 || hasFailed) return
  totals.fail++
  console.log(`not ok  the process of ${started.join(', ')} ended with exit code ${exitCode}\n${withSourceLines(output, compiled)}`)
  // Before its first file: no other process would start either.
  if (started.length === 0) { for (const each of queues) each.length = 0 }
}

/** Moves half of the longest queue to an empty one. Returns false if no file is left. */
function refill (queue: string[]): boolean {
  if (queue.length === 0) {
    const longest = queues.reduce((one, other) => other.length > one.length ? other : one)
    queue.push(...longest.splice(longest.length >> 1))
  }
  return queue.length > 0
}

/** Takes a file for a process that has started these. */
function nextIn (queue: string[], started: readonly string[]): string | undefined {
  if (!refill(queue) || started.length === filesPerProcess || started.some(isAlone)) return undefined
  const index = started.length === 0 ? 0 : queue.findIndex((file) => !isAlone(file))
  return index === -1 ? undefined : queue.splice(index, 1)[0]
}

/** Prints a passed file as one line with its skipped tests, a failed one with its whole output. Returns false if it has failed. */
function report (file: string, output: string): boolean {
  let lines = output.split('\n')
  const figures = lines.find((line) => line.startsWith('# { total:')) ?? ''
  const counts = {
    pass: figure(figures, 'pass'),
    fail: figure(figures, 'fail'),
    skip: figure(figures, 'skip'),
    todo: figure(figures, 'todo')
  }
  const ranNone = counts.pass + counts.fail + counts.skip + counts.todo === 0
  // The process ended before the file did, the file ran no test, or an error came after its tests.
  if (counts.fail === 0 && (ranNone || /^not ok /m.test(output))) counts.fail = 1
  for (const name of ['pass', 'fail', 'skip', 'todo'] as const) totals[name] += counts[name]
  allowedSkips += lines.filter((line) => line.includes(`# SKIP ${needsGoogle}`)).length
  const time = output.match(/^(?:not )?ok .* # time=(\d+)/m)?.[1] ?? '?'
  const isOk = counts.fail === 0
  console.log(`${isOk ? 'ok' : 'not ok'}  ${file} # pass=${counts.pass} time=${time}ms`)
  if (!isOk) lines = withSourceLines(output, compiled).split('\n')
  for (const line of lines) {
    if (!isOk || faults || / # (SKIP|TODO)\b/.test(line)) console.log(line)
  }
  return isOk
}

/** From tap's last line of a file, `# { total: 7, pass: 4, fail: 1, skip: 2 }`, which leaves out zeros. */
function figure (figures: string, name: string): number {
  return Number(figures.match(new RegExp(`\\b${name}: (\\d+)`))?.[1] ?? 0)
}
