/** What went wrong, in lines for whoever runs the command. */
import { ConfigError, formatFault } from '../lib/config/index.js'
import { catalogue, TenantryError } from '../lib/errors.js'
import { UsageError } from './command.js'

/** Faults of a document one a line; of what nobody foresaw the stack too. */
export function linesOf (error: unknown): string[] {
  if (error instanceof ConfigError) return error.faults.map(formatFault)
  if (error instanceof UsageError || error instanceof CommandError) return error.message.split('\n')
  // The cause stays out of HTTP answers; whoever starts the server needs it.
  if (error instanceof TenantryError) return [[textOf(error), ...causesOf(error.cause)].join(': ')]
  if (!(error instanceof Error)) return [String(error)]
  return isForeseen(error) ? [error.message] : (error.stack ?? error.message).split('\n')
}

/** A command cannot do what it was asked for; the message says why. */
export class CommandError extends Error {}

/** The catalogue speaks to callers; this speaks to whoever runs the database. */
function textOf ({ code, message }: TenantryError): string {
  return code === catalogue.databaseUnavailable.code ? 'the database cannot be reached' : message
}

function causesOf (cause: unknown): string[] {
  if (!(cause instanceof Error)) return []
  // Node reports a host that has several addresses as one error without a text, with one for each address in it.
  const inner: unknown[] = cause instanceof AggregateError ? cause.errors : []
  const texts = inner.length > 0 ? inner.map((one) => one instanceof Error ? one.message : String(one)) : [cause.message]
  return [[...new Set(texts)].filter((text) => text !== '').join(', '), ...causesOf(cause.cause)].filter((text) => text !== '')
}

/** Errors that the library throws at start for the operator to read: plain ones, and those of the system. */
function isForeseen (error: Error): boolean {
  return error.constructor === Error
}
