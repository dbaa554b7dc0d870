/** Runs a command of `tenantry`, or the process that reads modules for `tenantry dev`. */
import { documentProcess, serveDocument } from './dev/document-process.js'
import { run } from './program.js'

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader has closed the pipe, as `head` does.
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

if (process.argv[2] === documentProcess && process.connected) serveDocument()
else process.exitCode = await run(process.argv.slice(2), process.env)
