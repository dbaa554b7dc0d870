/**
 * `npm test`: runs tap on every test file (or those named), prints a line for each file and the whole of what failed,
 * then the line that continuous integration reads, `N passed, N failed` (and `, N skipped`), from tap's own figures.
 * Fails where something failed, where nothing ran, and with CI=true where something was skipped.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { leaveSharedServer } from './helpers/postgres/shared.js'

const tap = fileURLToPath(import.meta.resolve('tap'))
  .replace(/dist.*$/, 'dist/esm/run.mjs')
const child = spawn(process.execPath, [tap, '--reporter=tap', ...process.argv.slice(2)], { stdio: ['ignore', 'pipe', 'inherit'] })
// An interrupt reaches tap too; this process stays to end what the run started.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => child.kill('SIGTERM'))
const exited = new Promise<number>((resolve, reject) => {
  child.once('error', reject)
  child.once('exit', code => resolve(code ?? 1))
})

let figures = ''
let block: string[] = []
for await (const line of createInterface(child.stdout)) {
  if (line.startsWith('# { total:')) figures = line
  else if (line.startsWith('# Subtest:')) block = []
  else if (/^(not )?ok /.test(line)) report(line, block)
  else block.push(line)
}
const exitCode = await exited
await leaveSharedServer()

const [passed, failed, skipped] = [figure('pass'), figure('fail'), figure('skip') + figure('todo')]
if (passed + failed === 0) console.log('no test ran')
const refused = process.env.CI === 'true' && skipped > 0
if (refused) console.log('CI=true: a skipped test is a failure')
console.log(`\n${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`)
process.exitCode = exitCode !== 0 || failed > 0 || passed === 0 || refused ? 1 : 0

/** A file that passed is one line with its skipped tests; of one that failed its whole output is there to read. */
function report (result: string, output: readonly string[]): void {
  console.log(result.replace(/^(ok|not ok) \d+ - /, '$1  '))
  const failedFile = result.startsWith('not ok')
  for (const line of output) {
    if (failedFile || / # (SKIP|TODO)\b/.test(line)) console.log(line)
  }
}

/** From tap's last line, `# { total: 7, pass: 4, fail: 1, skip: 2 }`, which leaves out what is zero. */
function figure (name: string): number {
  return Number(figures.match(new RegExp(`\\b${name}: (\\d+)`))?.[1] ?? 0)
}
