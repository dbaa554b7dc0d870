/** Runs a command of `tenantry`, or the process that reads modules for `tenantry dev`. */
import { documentProcess, serveDocument } from './dev/document-process.js'
import { run } from './program.js'

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // The reader has closed the pipe, as `head` does. The command goes on: a migration must not end halfway, with 0.
    if (error.code !== 'EPIPE') throw error
  })
}

if (process.argv[2] === documentProcess && process.connected) serveDocument()
else process.exitCode = await run(process.argv.slice(2), process.env)
