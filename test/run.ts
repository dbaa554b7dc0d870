/**
 * `npm test` runs every test file except those of test/faults, or the named files and folders. `npm run test:faults` (`--faults`) runs the
 * files of test/faults one by one; they take minutes.
 *
 * A process runs up to 14 files one after another (test/files.ts), because its start takes a second of CPU time. A file whose name ends
 * with `.alone.test.ts` has a process of its own. Three more processes than cores run at a time, because many tests wait for servers.
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
import { prepareData } from '../lib/database/embedded-prepared.js'
import { compileProject } from './compile.js'
import { leaveSharedServer } from './helpers/postgres/shared.js'
import { needsGoogle } from './helpers/skips.js'
import { compiledArguments, root } from './helpers/typescript.js'
import { withSourceLines } from './source-lines.js'

const filesPerProcess = 14
const testTimeout = 240 // s of one file, enforced by tap itself: several times the longest, since a busy machine must not fail it
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

/** The files of each process: neighbours, which load the same modules. */
function groupsOf (files: readonly string[]): string[][] {
  const groups: string[][] = []
  for (const file of files) {
    const group = groups.at(-1)
    if (group === undefined || group.length === filesPerProcess || [file, ...group].some(isAlone)) groups.push([file])
    else group.push(file)
  }
  return groups
}

const running = new Set<ChildProcess>()
const totals = { pass: 0, fail: 0, skip: 0, todo: 0 }
// Skips of tests that need Google's emulator.
let allowedSkips = 0
const queue = groupsOf(files)
let wasInterrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    wasInterrupted = true
    queue.length = 0
    for (const child of running) child.kill(signal)
  })
}

// In the project, where it stays: the compiled copy of this run is deleted at the end.
await prepareData()
const compiled = await compileProject(root)
// Concurrent faults would disturb one another.
await Promise.all(Array.from({ length: faults ? 1 : availableParallelism() + 3 }, async () => {
  for (let group = queue.shift(); group !== undefined; group = queue.shift()) await run(group)
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

/** Runs the files in one process, and reports each. */
async function run (group: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [...compiledArguments(compiled, 'test/files.ts'), String(fileTimeout), ...group], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit']
  })
  running.add(child)
  const killer = setTimeout(() => child.kill('SIGKILL'), (group.length + 2) * fileTimeout * 1000)
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk
  })
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  clearTimeout(killer)
  running.delete(child)

  let rest = output
  let hasFailed = false
  for (const [index, file] of group.entries()) {
    const end = rest.indexOf(`\n# Subtest: ${group[index + 1]}\n`)
    const section = end === -1 ? rest : rest.slice(0, end)
    rest = end === -1 ? '' : rest.slice(end)
    if (!report(file, section)) hasFailed = true
  }
  if (exitCode === 0 || hasFailed) return
  totals.fail++
  console.log(`not ok  the process of ${group.join(', ')} ended with exit code ${exitCode}\n${withSourceLines(output, compiled)}`)
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
