/** `tenantry start`: serves a document until a signal ends it. */
import type { Call, Command } from '../command.js'
import type { ServerOptions } from '../../lib/server.js'
import { environmentOf } from '../../lib/config/index.js'
import { setting } from '../../lib/config/environment.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'
import { listenToSignals } from '../signals.js'

const defaultPort = '3000'
const defaultHost = '127.0.0.1'

export const start: Command = {
  summary: 'Serves a document.',
  usage: '[document] [--port N] [--host ADDRESS] [--print-mail]',
  document: 'optional',
  details: `Without a document it looks for tenantry.json, tenantry.jsonc, tenantry.js and tenantry.ts in this folder. A file .env
beside the document is read. The address is printed as "listening on http://...".

  --port N        the port; 0 takes a free one (the setting PORT; default ${defaultPort})
  --host ADDRESS  the address to listen on; 0.0.0.0 is all (the setting HOST; default ${defaultHost})
  --print-mail    mails of users are printed instead of sent, also without \`auth.mail\`; for development

SIGTERM and SIGINT let running requests finish, at most 10 seconds, and end with 0; a second one ends at once. SIGTERM
serves on before that for as long as \`server.stopDelayMs\` of the document says, while GET /health answers 503.`,
  options: { port: { type: 'string' }, host: { type: 'string' }, 'print-mail': { type: 'boolean' } },

  async run (call) {
    const stopOnSignal = listenToSignals()
    const named = portOf(call.text('port'))
    const config = await loadDocument(call.document, call.env)
    const env = environmentOf(config)
    const port = named ?? portOf(setting(env, 'PORT') || defaultPort)
    const host = call.text('host') ?? (setting(env, 'HOST') || defaultHost)
    // Loaded when it is needed: other commands, and help, are there at once.
    const { createServer } = await import('../../lib/server.js')
    const app = createServer(config, { env, deliverMail: call.flag('print-mail') ? mailPrinter(call) : undefined })
    const stopped = stopOnSignal(app)
    try {
      const address = await Promise.race([app.listen({ port, host }), stopped])
      if (typeof address !== 'string') return process.exit(0)
      call.print(`listening on ${address}`)
    } catch (error) {
      // What is half open, a pool that tries to connect for example, must not keep the process.
      setImmediate(() => process.exit(1))
      throw explain(error, host, port)
    }
    await stopped
    return process.exit(0)
  }
}

/** Prints mails on standard output. */
function mailPrinter ({ print }: Call): ServerOptions['deliverMail'] {
  return async ({ to, subject, text }) => { print(`mail to ${to}: ${subject}\n\n${text}`) }
}

function portOf (text: string): number
function portOf (text: string | undefined): number | undefined
function portOf (text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new CommandError(`the port "${text}" is no number from 0 to 65535`)
  return port
}

function explain (error: unknown, host: string, port: number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'EADDRINUSE': return new CommandError(`the port ${port} is in use by another program: stop that one, or choose another port with --port`)
    case 'EACCES': return new CommandError(`this process may not listen on the port ${port}: choose one above 1023 with --port`)
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND': return new CommandError(`this machine has no address "${host}" to listen on`)
    default: return error
  }
}
