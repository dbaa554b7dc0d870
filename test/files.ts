/** Runs test files one after another in one process (run.ts). Usage: node test/files.js <seconds for each file> <file>... */
import { resolve } from 'node:path'
import t, { Counts } from 'tap'
import { forgetExchanges } from './helpers/log-scan.js'

const [seconds, ...files] = process.argv.slice(2)
const timeout = Number(seconds) * 1000
// While a file runs, `t` is the file (tap.ts).
const root = t
root.setTimeout(0)
// tap's own name contains all arguments, which is too long for a folder.
root.testdirName = resolve('.tap/fixtures', String(process.pid))

for (const file of files) {
  await root.test(file, { timeout }, () => import(`../${file.replace(/\.ts$/, '.js')}`))
  root.comment(root.counts.toJSON())
  root.counts = new Counts()
  forgetExchanges()
}
// If handles that stay open keep the process alive, tap lists them and ends it.
root.setTimeout(timeout)
