/**
 * Runs the test files that the parent names (run.ts), one after another in one process. Usage: node test/files.js <seconds for each file>
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
  root.counts = new Counts()
  forgetExchanges()
}
// If handles that stay open keep the process alive, tap lists them and ends it.
root.setTimeout(timeout)

async function nextFile (): Promise<string> {
  parent.ref()
  parent.write('next')
  const [answer] = await once(parent, 'data')
  parent.unref()
  return String(answer)
}
