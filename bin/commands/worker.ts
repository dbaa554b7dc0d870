/** `tenantry worker`: runs the jobs of a document's servers until a signal, without a port. */
import type { Command } from '../command.js'
import { environmentOf, withSections } from '../../lib/configuration/index.js'
import { maxWorkers } from '../../lib/schema/queue.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'
import { listenToSignals } from '../signals.js'

export const worker: Command = {
  summary: 'Runs background jobs, without a port.',
  usage: '[document] [--workers N]',
  details: `Takes the document of the servers whose jobs it runs, beside them or in their place: with \`queue.workers: 0\` a
server only sends them. Without a document it looks for tenantry.json, tenantry.jsonc, tenantry.js and tenantry.ts in this folder.
A file .env beside the document is read. When it works it prints "working on up to N jobs at a time".

  --workers N  jobs at a time, 1 to ${maxWorkers} (default: \`queue.workers\` of the document)

SIGTERM and SIGINT let running jobs finish, some 8 seconds; the others are handed back, and another process runs them.
It ends with 0; a second signal ends it at once.`,
  options: { workers: { type: 'string' } },

  async run (call) {
    const stopOnSignal = listenToSignals()
    const named = workersOf(call.text('workers'))
    const document = await loadDocument(call.document, call.env)
    if (document.database.provider === 'embedded') throw new CommandError('an embedded database has one process: the server runs its jobs')
    const workers = named ?? document.queue.workers
    if (workers === 0) throw new CommandError("the document's `queue.workers` is 0: say with --workers how many jobs run at a time")
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
    throw new CommandError(`--workers "${text}" is no number from 1 to ${maxWorkers}`)
  }
  return workers
}
