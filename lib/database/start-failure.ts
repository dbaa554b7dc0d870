/** Failures at start, explained for the operator: the reason and the next step. Messages of the error catalogue are for callers. */
import { catalogue, TenantryError } from '../errors.js'

/** The option with the address of the database. */
const addressOption = '`postgres.connectionString`'
/** The same in a document. */
export const addressMember = `${addressOption} (DATABASE_URL)`

const writable = 'give this process write access to it, or choose another folder'
const authority = 'set the certificate of its authority in `postgres.ssl.ca`'
/** By codes of PostgreSQL and of Node. */
const remedies: Readonly<Record<string, (address: string) => string>> = {
  28000: (address) => `correct the user in ${address}`,
  '28P01': (address) => `correct the user or the password in ${address}`,
  '3D000': (address) => `create the database, or correct its name in ${address}`,
  42501: (address) => `grant the right to the user in ${address}, or connect as the owner of the tables`,
  EACCES: () => writable,
  EROFS: () => writable,
  EEXIST: () => 'choose another folder',
  ENOTDIR: () => 'choose another folder',
  ENOSPC: () => 'free space on the disk',
  ECONNREFUSED: (address) => `start PostgreSQL, or correct the host or the port in ${address}`,
  ENOTFOUND: (address) => `correct the host in ${address}`,
  DEPTH_ZERO_SELF_SIGNED_CERT: () => authority,
  SELF_SIGNED_CERT_IN_CHAIN: () => authority,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: () => authority
}

/** The operator's next step, if it is known. */
export function remedyOf (error: Error, address: string): string[] {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const remedy = 'code' in cause ? remedies[String(cause.code)] : undefined
    if (remedy !== undefined) return [remedy(address)]
  }
  return isUnreachable(error) ? [`check the host, the port and the TLS options in ${address}`] : []
}

/**
 * The text of an error of the catalogue, with its causes, which HTTP responses leave out.
 *
 * @param address the name of the setting or option. Default: that of an option
 */
export function explain (error: TenantryError, address = addressOption): string {
  const text = isUnreachable(error) ? 'the database cannot be reached' : error.message
  return [text, ...causesOf(error.cause).filter((cause) => !text.includes(cause)), ...remedyOf(error, address)].join(': ')
}

export function isUnreachable (error: unknown): boolean {
  return error instanceof TenantryError && error.code === catalogue.databaseUnavailable.code
}

function causesOf (cause: unknown): string[] {
  if (!(cause instanceof Error)) return []
  // For a host with several addresses Node throws one error without a message, with an error for each address in it.
  const inner: unknown[] = cause instanceof AggregateError ? cause.errors : []
  const texts = inner.length > 0 ? inner.map((one) => one instanceof Error ? one.message : String(one)) : [cause.message]
  return [[...new Set(texts)].filter((text) => text !== '').join(', '), ...causesOf(cause.cause)].filter((text) => text !== '')
}
