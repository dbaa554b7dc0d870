/** `tenantry worker`: runs the jobs of a document's servers until a signal, without a port. */
import { environmentOf, withSections } from '../../lib/configuration/index.js'
import { maxWorkers } from '../../lib/schema/queue.js'
import type { Command } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'
import { listenToSignals } from '../signals.js'

export const worker: Command = {
  summary: 'Run background jobs, without listening on a port.',
  usage: '[document] [--workers N]',
  details: `Runs the background jobs of the servers with this document, beside the servers or, with \`queue.workers: 0\`, instead of
them. Without a document, the command looks for tenantry.json, tenantry.jsonc, tenantry.js and tenantry.ts in the current
folder. A file .env beside the document is read. When it is ready it prints "working on up to N jobs at a time".

  --workers N  the number of concurrent jobs, 1 to ${maxWorkers} (default: \`queue.workers\` of the document)

SIGTERM and SIGINT let running jobs finish for about 8 seconds, hand the others back to other processes, and end with 0; a
second signal ends immediately.`,
  options: { workers: { type: 'string' } },

  async run (call) {
    const stopOnSignal = listenToSignals()
    const named = workersOf(call.text('workers'))
    const document = await loadDocument(call.document, call.env)
    if (document.database.provider === 'embedded') {
      throw new CommandError('an embedded database can be used by one process only: the server runs its jobs')
    }
    const workers = named ?? document.queue.workers
    if (workers === 0) throw new CommandError("the document's `queue.workers` is 0: set the number of concurrent jobs with --workers")
    const config = withSections(document, { queue: { ...document.queue, workers } })
    // Imported here so that other commands and help start fast.
    const { createServer } = await import('../../lib/server.js')
    // Its connections and timers do not keep the process alive.
    setInterval(() => {}, 2_147_483_647)
    const app = createServer(config, { env: environmentOf(config) })
    const stopped = stopOnSignal(app)
    try {
      const ready = await Promise.race([app.ready().then(() => true), stopped.then(() => false)])
      if (!ready) return process.exit(0)
      call.print(`working on up to ${workers} jobs at a time`)
    } catch (error) {
      // An open handle, such as a pool that is still connecting, must not keep the process alive.
      setImmediate(() => process.exit(1))
      throw error
    }
    await stopped
    return process.exit(0)
  }
}

function workersOf (text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const workers = Number(text)
  if (!/^\d{1,3}$/.test(text) || workers < 1 || workers > maxWorkers) {
    throw new CommandError(`--workers "${text}" is invalid: expected a number from 1 to ${maxWorkers}`)
  }
  return workers
}
