/**
 * The keys of one provider as they are known here. They are read when the first token comes, again for a key that is not
 * known, and in the background so that a key that was withdrawn goes; while the provider is down the known ones go on.
 */
import type { KeyObject } from 'node:crypto'
import type { SignatureAlgorithm } from '../../../lib/schema/auth-providers.js'
import { failure, type TenantryError } from '../../../lib/errors.js'
import { tokenInvalid } from '../errors.js'
import { downloadJson } from './download.js'
import { readKeySet, type KeySet } from './key-set.js'

const renewAfter = 600_000 // ms after which keys are read again
const searchPause = 30_000 // ms between two searches for keys that are not known: strangers make them up
const retryPause = 5_000 // ms until a provider is asked again that gave no keys at all
const maxWaiting = 1_000 // requests that wait for one answer of the provider

export interface JwksOptions {
  readonly address: string
  readonly algorithms: readonly SignatureAlgorithm[]
  /** The clock, in milliseconds. */
  readonly now: () => number
  /** The keys are others than before. */
  readonly onChange: () => void
  /** They could not be read. */
  readonly onError: (error: unknown) => void
}

export interface Jwks {
  /**
   * The key of a token, at once where it is known. Throws, or rejects with, `tokenInvalid` where there is none, and
   * `identityProviderUnavailable` where no keys can be had, or too many requests wait for them.
   */
  find(algorithm: SignatureAlgorithm, kid: string | undefined): KeyObject | Promise<KeyObject>
  /** Reads the keys again in the background, where they are old enough. */
  renew(): void
  close(): void
}

export function createJwks ({ address, algorithms, now, onChange, onError }: JwksOptions): Jwks {
  let keys: KeySet | null = null
  let readAt = -Infinity
  let askedAt = -Infinity
  let searchedAt = -Infinity
  let asking: Promise<void> | null = null
  let waiting = 0
  let stop: AbortController | null = null
  let closed = false

  /** One at a time, for all who wait; it never rejects. */
  function ask (): Promise<void> {
    asking ??= read().catch(onError).finally(() => {
      asking = null
    })
    return asking
  }

  async function read (): Promise<void> {
    askedAt = now()
    if (closed) return
    stop = new AbortController()
    const found = readKeySet(await downloadJson(address, stop), algorithms)
    const before = keys?.text ?? ''
    // A provider that is there and has no key has withdrawn them all.
    keys = found.text === '' ? null : found
    readAt = now()
    if (before !== found.text) onChange()
    if (keys === null) throw new Error(`the set has no key for ${algorithms.join(', ')}`)
  }

  /** The clock may have been set back. */
  function hasPassed (ms: number, since: number): boolean {
    const passed = now() - since
    return passed >= ms || passed < 0
  }

  function renew (): void {
    if (keys !== null && hasPassed(renewAfter, readAt) && hasPassed(searchPause, askedAt)) ask()
  }

  async function search (algorithm: SignatureAlgorithm, kid: string | undefined): Promise<KeyObject> {
    if (waiting >= maxWaiting) throw unavailable(1)
    waiting++
    await ask()
    waiting--
    if (keys === null) throw unavailable(retryPause / 1000)
    const key = keys.find(algorithm, kid)
    if (key !== undefined) return key
    // The answer that it waited for was the search for it.
    searchedAt = askedAt
    throw tokenInvalid()
  }

  return {
    find (algorithm, kid) {
      if (keys === null) {
        if (asking === null && !hasPassed(retryPause, askedAt)) throw unavailable(retryPause / 1000)
        return search(algorithm, kid)
      }
      renew()
      const key = keys.find(algorithm, kid)
      if (key !== undefined) return key
      // Which of its keys such a token has, no search would tell.
      if (kid === undefined) throw tokenInvalid()
      if (asking === null && !hasPassed(searchPause, searchedAt)) throw tokenInvalid()
      return search(algorithm, kid)
    },
    renew,
    close () {
      closed = true
      stop?.abort(new Error('the server is stopping'))
    }
  }
}

function unavailable (retryAfter: number): TenantryError {
  return failure('identityProviderUnavailable', { headers: { 'retry-after': String(retryAfter) } })
}
