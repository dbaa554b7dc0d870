/**
 * Writes under idempotency keys. The provider repeats its first response to a key, failures included, for a day or longer. Such a response
 * may be outdated: others may have changed the object since then.
 */
import { randomUUID } from 'node:crypto'
import type Stripe from 'stripe'
import { type AltprovCall, isReplayedFailure, keyOf, type ProviderResponse } from './client.js'

export interface Write<T> {
  readonly read: (body: unknown) => T
  /** The parts of the idempotency key. */
  readonly key: readonly unknown[]
  readonly run: (stripe: Stripe, options: { readonly idempotencyKey: string }) => Promise<unknown>
  /** Reads the current state; null if it lacks the result of the write. `first`: the repeated response, null for a repeated failure. */
  readonly current: (first: T | null) => Promise<ProviderResponse<T> | null>
}

/** Sends the request. After a repeated response it sends it again, under another key, unless the current state has its result. */
export async function write<T> (call: AltprovCall, { read, key, run, current }: Write<T>): Promise<ProviderResponse<T>> {
  const send = (idempotencyKey: string) => call(read, (stripe) => run(stripe, { idempotencyKey }))
  const first = await send(keyOf(...key)).catch((error: unknown) => {
    if (isReplayedFailure(error)) return null
    throw error
  })
  if (first !== null && !first.isReplay) return first
  return await current(first === null ? null : first.body) ?? await send(keyOf(...key, randomUUID()))
}
