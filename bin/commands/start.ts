/** `tenantry start`: serves a document until a signal ends it. */
import { environmentOf } from '../../lib/configuration/index.js'
import type { Command } from '../command.js'
import { loadDocument } from '../document.js'
import { growHeap } from '../heap.js'
import { checkAddress, defaultHost, defaultPort, explainListening, listenAt, namedPort } from '../listening.js'
import { mailPrinter } from '../mail-printer.js'
import { listenToSignals } from '../signals.js'

export const start: Command = {
  summary: 'Serve a document.',
  usage: '[document] [--port N] [--host ADDRESS] [--print-mail]',
  details: `Without a document, the command looks for tenantry.json, tenantry.jsonc, tenantry.js and tenantry.ts in the current folder.
A file .env beside the document is read. The address is printed as "listening on http://...".

  --port N        the port; 0 selects a free port (the setting PORT; default ${defaultPort})
  --host ADDRESS  the address to listen on; 0.0.0.0 is every address (the setting HOST; default ${defaultHost})
  --print-mail    print mails to users instead of sending them, even without \`auth.mail\`; for development

SIGTERM and SIGINT let running requests finish within 10 seconds, and end with 0; a second signal ends immediately.
After SIGTERM the server first keeps serving for \`server.stopDelayMs\` of the document, while GET /health responds with 503.`,
  options: { port: { type: 'string' }, host: { type: 'string' }, 'print-mail': { type: 'boolean' } },

  async run (call) {
    const stopOnSignal = listenToSignals()
    growHeap()
    namedPort(call)
    const config = await loadDocument(call.document, call.env)
    const env = environmentOf(config)
    const at = listenAt(call, env)
    await checkAddress(at)
    // Imported here so that other commands and help start fast.
    const { createServer } = await import('../../lib/server.js')
    const app = createServer(config, { env, deliverMail: call.flag('print-mail') ? mailPrinter(call) : undefined })
    const stopped = stopOnSignal(app)
    try {
      const address = await Promise.race([app.listen(at), stopped])
      if (typeof address !== 'string') return process.exit(0)
      call.print(`listening on ${address}`)
    } catch (error) {
      // An open handle, such as a pool that is still connecting, must not keep the process alive.
      setImmediate(() => process.exit(1))
      throw explainListening(error, at)
    }
    await stopped
    return process.exit(0)
  }
}
