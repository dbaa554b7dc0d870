/**
 * `npm test`: runs tap on every test file (or those named), then prints the line that continuous integration reads,
 * `N passed, N failed` (and `, N skipped`), from tap's own figures. Fails where something failed, where nothing ran,
 * and with CI=true where something was skipped.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { leaveSharedServer } from './helpers/postgres/shared.js'

const folder = await mkdtemp(join(tmpdir(), 'tenantry-tap-'))
const output = join(folder, 'output.tap')
const tap = fileURLToPath(import.meta.resolve('tap/package.json')).replace('package.json', 'dist/esm/run.mjs')
const exitCode = await runTap([tap, '--reporter=terse', `--output-file=${output}`, ...process.argv.slice(2)])
const text = await readFile(output, 'utf8').catch(() => '')
await rm(folder, { recursive: true, force: true })
await leaveSharedServer()

const { passed, failed, skipped } = countTests(text)
if (passed + failed === 0) console.error('no test ran')
const refused = process.env.CI === 'true' && skipped > 0
if (refused) console.error('CI=true: a skipped test is a failure')
console.log(`${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`)
process.exitCode = exitCode !== 0 || failed > 0 || passed === 0 || refused ? 1 : 0

function runTap (args: string[]): Promise<number> {
  const child = spawn(process.execPath, args, { stdio: 'inherit' })
  // An interrupt reaches tap too; this process stays to end what the run started.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => resolve(code ?? 1))
  })
}

/** From tap's last line of figures: `# { total: 7, pass: 4, fail: 1, skip: 2 }`, without what is zero. */
function countTests (text: string): { passed: number, failed: number, skipped: number } {
  const line = text.match(/^# \{ total: .*\}$/gm)?.at(-1) ?? ''
  const figure = (name: string): number => Number(line.match(new RegExp(`\\b${name}: (\\d+)`))?.[1] ?? 0)
  return { passed: figure('pass'), failed: figure('fail'), skipped: figure('skip') + figure('todo') }
}
