#!/usr/bin/env node
/** The command `tenantry`. Everything else is imported after the check: an older Node.js fails at its imports, without a reason. */
import { nodeFault } from './node-version.js'

const fault = nodeFault(process.version)
if (fault === null) await import('./main.js')
else {
  process.stderr.write(`${fault}\n`)
  process.exitCode = 1
}
