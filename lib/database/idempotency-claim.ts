/** A request with an idempotency key. Its write marks the claim in its own transaction, so the key shows whether it was committed. */
import { CompiledQuery, type Kysely } from 'kysely'
import { failure, retryIn } from '../errors.js'

export interface IdempotencyClaim {
  /** The statement that marks the claim. It returns no row if another request has taken over the key. */
  readonly mark: { readonly text: string, readonly values: readonly unknown[] }
}

/** Marks the claim in the transaction of the write. Throws `idempotencyRunning`, which rolls it back, if the key was taken over. */
export async function markClaim<Tables> (transaction: Kysely<Tables>, { mark: { text, values } }: IdempotencyClaim): Promise<void> {
  const { rows } = await transaction.executeQuery(CompiledQuery.raw(text, [...values]))
  requireMark(rows)
}

/** Checks the result of the statement. */
export function requireMark (rows: readonly unknown[]): void {
  if (rows.length === 0) throw requestRunning()
}

const retryAfter = 2 // s

/** 409: a request with the key is running. */
export function requestRunning (): Error {
  return failure('idempotencyRunning', retryIn(retryAfter))
}
