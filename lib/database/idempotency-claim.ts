/**
 * A request that holds an idempotency key. A write of the request marks the claim in its own transaction, so that the key
 * tells whether the write was committed, whatever becomes of the process after that.
 */
import type { Kysely } from 'kysely'
import { CompiledQuery } from 'kysely'
import { failure } from '../errors.js'

export interface IdempotencyClaim {
  /** The statement that marks the claim. It answers no row where another request holds the key by now. */
  readonly mark: { readonly text: string, readonly values: readonly unknown[] }
}

/**
 * Marks the claim in the transaction of the write. Throws `idempotencyRunning` where the key was taken over, so that the write
 * is undone.
 */
export async function markClaim<Tables> (transaction: Kysely<Tables>, { mark: { text, values } }: IdempotencyClaim): Promise<void> {
  const { rows } = await transaction.executeQuery(CompiledQuery.raw(text, [...values]))
  requireMark(rows)
}

/** Judges the answer of the statement. */
export function requireMark (rows: readonly unknown[]): void {
  if (rows.length === 0) throw requestRunning()
}

const retryAfter = 2 // s

/** 409: a request with the key runs. */
export function requestRunning (): Error {
  return failure('idempotencyRunning', { extras: { retryAfter }, headers: { 'retry-after': String(retryAfter) } })
}
