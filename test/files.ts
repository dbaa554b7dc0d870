/**
 * Runs the test files that the parent names (run.ts), one after another in one process, which ends after a failed one.
 * Usage: node test/files.js <seconds for each file>
 */
import { once } from 'node:events'
import { Socket } from 'node:net'
import { resolve } from 'node:path'
import t, { Counts } from 'tap'
import { forgetExchanges } from './helpers/log-scan.js'

const timeout = Number(process.argv[2]) * 1000
// Not the channel of `process.send`, which tap uses too.
const parent = new Socket({ fd: 3 })
// While a file runs, `t` is the file (tap.ts).
const root = t
root.setTimeout(0)
// tap's own name contains all arguments, which is too long for a folder.
root.testdirName = resolve('.tap/fixtures', String(process.pid))

for (let file = await nextFile(); file !== 'end'; file = await nextFile()) {
  await root.test(file, { timeout }, () => import(`../${file.replace(/\.ts$/, '.js')}`))
  root.comment(root.counts.toJSON())
  if (root.counts.fail > 0) await endAfterFailure()
  root.counts = new Counts()
  forgetExchanges()
}
// If handles that stay open keep the process alive, tap lists them and ends it.
root.setTimeout(timeout)

/** After a failed teardown, open handles would keep the process alive, and late errors would count for the next file. */
async function endAfterFailure (): Promise<never> {
  // tap reports the error of a teardown a little later.
  await new Promise(setImmediate)
  await new Promise<void>((resolve) => process.stdout.write('', () => resolve()))
  process.exit(1)
}

async function nextFile (): Promise<string> {
  parent.ref()
  parent.write('next')
  const [answer] = await once(parent, 'data')
  parent.unref()
  return String(answer)
}
