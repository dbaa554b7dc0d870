#!/usr/bin/env node
/** The command `tenantry`. Everything else is imported after the check: an older Node.js fails at its imports, without a reason. */
import { nodeFault } from './node-version.js'

const fault = nodeFault(process.version)
if (fault === null) {
  // As Node.js 21 has it. Without it, pg tries a `Response` to detect another platform, which loads Node's fetch and takes 5 MB.
  if (!('navigator' in globalThis)) {
    const userAgent = process.version.replace(/^v(\d+).*/, 'Node.js/$1')
    Object.defineProperty(globalThis, 'navigator', { value: { userAgent }, configurable: true })
  }
  await import('./main.js')
} else {
  process.stderr.write(`${fault}\n`)
  process.exitCode = 1
}
