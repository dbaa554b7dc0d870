import type { ServerOptions } from '../lib/server.js'
import type { Call } from './command.js'

/** Prints mails on standard output. */
export function mailPrinter ({ print }: Call): ServerOptions['deliverMail'] {
  return async ({ to, subject, text }) => {
    print(`mail to ${to}: ${subject}\n\n${text}`)
  }
}
