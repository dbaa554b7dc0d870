/** Errors as lines for the user of the command. */
import { ConfigError, formatFault } from '../lib/configuration/index.js'
import { catalogue, TenantryError } from '../lib/errors.js'
import { UsageError } from './command.js'

/** Faults of a document have a line each. Unexpected errors have their stack. */
export function linesOf (error: unknown): string[] {
  if (error instanceof ConfigError) return error.faults.map(formatFault)
  if (error instanceof UsageError || error instanceof CommandError) return error.message.split('\n')
  if (!(error instanceof Error)) return [String(error)]
  const remedy = remedyOf(error)
  if (error instanceof TenantryError) {
    const text = textOf(error)
    // HTTP responses leave the cause out; the terminal shows it.
    return [[text, ...causesOf(error.cause).filter((cause) => !text.includes(cause)), ...remedy].join(': ')]
  }
  return remedy.length > 0 || isForeseen(error) ? [[error.message, ...remedy].join(': ')] : (error.stack ?? error.message).split('\n')
}

/** The command cannot do its work; the message says why. */
export class CommandError extends Error {}

/** Messages of the error catalogue are for callers of the API; these are for the operator of the database. */
function textOf ({ code, message }: TenantryError): string {
  return code === catalogue.databaseUnavailable.code ? 'the database cannot be reached' : message
}

const address = '`postgres.connectionString` (DATABASE_URL)'
const authority = 'set the certificate of its authority in `postgres.ssl.ca`'
const writable = 'give this process write access to it, or choose another folder'
/** By codes of PostgreSQL and of Node. */
const remedies: Readonly<Record<string, string>> = {
  28000: `correct the user in ${address}`,
  '28P01': `correct the user or the password in ${address}`,
  '3D000': `create the database, or correct its name in ${address}`,
  42501: `grant the right to the user in ${address}, or connect as the owner of the tables`,
  EACCES: writable,
  EROFS: writable,
  EEXIST: 'choose another folder',
  ENOTDIR: 'choose another folder',
  ENOSPC: 'free space on the disk',
  ECONNREFUSED: `start PostgreSQL, or correct the host or the port in ${address}`,
  ENOTFOUND: `correct the host in ${address}`,
  DEPTH_ZERO_SELF_SIGNED_CERT: authority,
  SELF_SIGNED_CERT_IN_CHAIN: authority,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: authority
}

/** The operator's next step, if it is known. */
function remedyOf (error: Error): string[] {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const remedy = 'code' in cause ? remedies[String(cause.code)] : undefined
    if (remedy !== undefined) return [remedy]
  }
  if (!(error instanceof TenantryError) || error.code !== catalogue.databaseUnavailable.code) return []
  return [`check the host, the port and the TLS options in ${address}`]
}

function causesOf (cause: unknown): string[] {
  if (!(cause instanceof Error)) return []
  // For a host with several addresses Node throws one error without a message, with an error for each address in it.
  const inner: unknown[] = cause instanceof AggregateError ? cause.errors : []
  const texts = inner.length > 0 ? inner.map((one) => one instanceof Error ? one.message : String(one)) : [cause.message]
  return [[...new Set(texts)].filter((text) => text !== '').join(', '), ...causesOf(cause.cause)].filter((text) => text !== '')
}

/** Errors at start that are meant for the operator: plain errors of the library, and system errors. */
function isForeseen (error: Error): boolean {
  return error.constructor === Error
}
