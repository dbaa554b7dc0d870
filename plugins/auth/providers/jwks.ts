/**
 * The keys of one provider. They are read at the first token, again for an unknown or replaced key, and in the background so that withdrawn
 * keys expire. While the provider is down, known keys stay valid.
 */
import type { KeyObject } from 'node:crypto'
import type { CompleteAuthProvider } from '../../../lib/document/rules/auth.js'
import { failure, type TenantryError } from '../../../lib/errors.js'
import { parseBounded } from '../../../lib/json/bounds.js'
import type { SignatureAlgorithm } from '../../../lib/schema/tokens.js'
import { tokenInvalid } from '../errors.js'
import { type KeySet, readKeySet } from './key-set.js'

const maxBytes = 1_048_576 // of the document, unpacked
const standardLimit = 5_000 // ms for the whole download

/**
 * Reads the document at the address. Refuses redirects, since only the address itself is configured. Rejects for another status than
 * 200, a document beyond 1 MB, a timeout, and text that is not JSON.
 *
 * @param stop aborts the download early
 * @param timeLimit milliseconds for the whole download. Default: 5000
 */
export async function downloadJson (address: string, stop: AbortController, timeLimit = standardLimit): Promise<unknown> {
  const timer = setTimeout(() => stop.abort(new Error(`no complete response within ${timeLimit / 1000} s`)), timeLimit)
  try {
    const { status, body } = await fetch(address, { redirect: 'error', headers: { accept: 'application/json' }, signal: stop.signal })
    if (body === null || status !== 200) {
      await body?.cancel()
      throw new Error(`the response has the status ${status}`)
    }
    const chunks: Uint8Array[] = []
    let size = 0
    // Leaving the loop closes the connection.
    for await (const chunk of body) {
      size += chunk.byteLength
      if (size > maxBytes) throw new Error(`the response has more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
    return parseBounded(Buffer.concat(chunks).toString())
  } finally {
    clearTimeout(timer)
  }
}

const renewAfter = 600_000 // ms between readings of the keys
const searchPause = 30_000 // ms between two searches for unknown keys, which callers can invent
const retryPause = 5_000 // ms after a failed read until a token with an unknown key reads again
const maxWaiting = 1_000 // requests that wait for one response of the provider

export type Jwks = ReturnType<typeof createJwks>

/**
 * @param onChange called when the keys have changed
 * @param onError called when the keys could not be read
 */
export function createJwks (
  { jwksUri, algorithms }: CompleteAuthProvider,
  now: () => number,
  onChange: () => void,
  onError: (error: unknown) => void
) {
  let keys: KeySet | null = null
  let readAt = -Infinity
  /** The last read failed: the provider may have other keys. */
  let hasFailed = false
  let askedAt = -Infinity
  let searchedAt = -Infinity
  let asking: Promise<void> | null = null
  let waiting = 0
  let stop: AbortController | null = null
  let closed = false

  /** One read at a time, for all waiting requests. It never rejects. */
  function ask (): Promise<void> {
    asking ??= read().then(() => {
      hasFailed = false
    }, (error: unknown) => {
      hasFailed = true
      onError(error)
    }).finally(() => {
      asking = null
    })
    return asking
  }

  async function read (): Promise<void> {
    askedAt = now()
    if (closed) return
    stop = new AbortController()
    const found = readKeySet(await downloadJson(jwksUri, stop), algorithms)
    const before = keys?.text ?? ''
    // A reachable provider without usable keys has withdrawn all keys.
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

  /** Reads the keys again in the background, if they are old enough. */
  function renew (): void {
    if (keys !== null && hasPassed(renewAfter, readAt) && hasPassed(searchPause, askedAt)) ask()
  }

  function known (algorithm: SignatureAlgorithm, kid: string | undefined, replaced: KeyObject | null): KeyObject | undefined {
    const key = keys?.find(algorithm, kid)
    return key === undefined || replaced?.equals(key) === true ? undefined : key
  }

  async function search (algorithm: SignatureAlgorithm, kid: string | undefined, replaced: KeyObject | null): Promise<KeyObject> {
    if (waiting >= maxWaiting) throw unavailable(1)
    waiting++
    await ask()
    waiting--
    const key = known(algorithm, kid, replaced)
    if (key !== undefined) return key
    if (keys === null || hasFailed) throw unavailable(retryPause / 1000)
    // The response that this request waited for counts as its search.
    searchedAt = askedAt
    throw tokenInvalid()
  }

  return {
    /**
     * The key of a token, at once if it is known. Throws, or rejects with, `tokenInvalid` for an unknown key, and
     * `identityProviderUnavailable` if it is unknown because the keys cannot be read, or if too many requests wait for them.
     *
     * @param replaced the key that `find` returned for a token without a key id, although another key signed the token
     */
    find (algorithm: SignatureAlgorithm, kid: string | undefined, replaced: KeyObject | null = null): KeyObject | Promise<KeyObject> {
      renew()
      const key = known(algorithm, kid, replaced)
      if (key !== undefined) return key
      // Without a key id, a search cannot tell which of several keys signed the token.
      if (keys !== null && kid === undefined && replaced === null) throw tokenInvalid()
      if (asking === null) {
        if (hasFailed && !hasPassed(retryPause, askedAt)) throw unavailable(retryPause / 1000)
        if (keys !== null && !hasPassed(searchPause, searchedAt)) throw tokenInvalid()
      }
      return search(algorithm, kid, replaced)
    },
    renew,
    close (): void {
      closed = true
      stop?.abort(new Error('the server is stopping'))
    }
  }
}

function unavailable (retryAfter: number): TenantryError {
  return failure('identityProviderUnavailable', { headers: { 'retry-after': String(retryAfter) } })
}
