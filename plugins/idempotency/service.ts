/** `app.idempotency`: repeated requests with one key run once. */
import { createHash, randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import { requestRunning } from '../../lib/database/idempotency-claim.js'
import { failure } from '../../lib/errors.js'
import { callerParts } from '../../lib/http/account.js'
import { isPlatformAdmin, type Owner, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { Claim, KeptResponse } from '../../lib/runtime/idempotency.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import { idempotencyPlace, type SecretCipher, SecretUnreadable } from '../../lib/secrets/cipher.js'
import { callerBytes, createKeyQuota } from './quota.js'
import { type FoundKey, type Holding, type IdempotencyStore, lostStatement, markStatement, responseStatement } from './store.js'

export const maxResponseBytes = 131_072 // of one body; a larger response is not kept

const fingerprintLength = 64 // characters
const maxTries = 5

export interface Idempotency {
  /**
   * Claims the key of the request, or returns the response of the first request with the key. Rejects with:
   * - `idempotencyMismatch` for another body or query string
   * - `idempotencyRunning` while the first request runs
   * - `idempotencyAnswerLost` if its response is not kept
   * - `idempotencyFull`
   * - `idempotencyUnavailable` without a master key for `encrypted` routes
   */
  claim(request: RouteCall, key: string, options: { readonly encrypted: boolean }): Promise<Claim | KeptResponse>
  /** Removes expired keys. It runs every hour by itself. */
  sweep(): Promise<void>
}

interface IdempotencyParts {
  readonly store: IdempotencyStore
  /** null without a master key. */
  readonly cipher: SecretCipher | null
  readonly log: Pick<FastifyBaseLogger, 'warn'>
}

interface ClaimKind {
  readonly encrypted: boolean
  /** Its caller has no credentials. */
  readonly isAnonymous: boolean
  readonly isAdmin: boolean
}

export function createIdempotency ({ store, cipher, log }: IdempotencyParts): Idempotency {
  const quota = createKeyQuota(store)

  function sealed ({ tenant, id }: Holding, text: string, encrypted: boolean): Buffer {
    if (!encrypted) return Buffer.from(text)
    if (cipher === null) throw failure('idempotencyUnavailable')
    return cipher.encrypt(idempotencyPlace(tenant, id), text)
  }

  function opened ({ tenant, id }: Holding, { content, encrypted }: FoundKey): string {
    if (!encrypted) return content.toString()
    if (cipher === null) throw failure('idempotencyUnavailable')
    try {
      return cipher.decrypt(idempotencyPlace(tenant, id), content)
    } catch (error) {
      // The master key of the entry is missing.
      if (error instanceof SecretUnreadable) throw failure('idempotencyAnswerLost', { cause: error })
      throw error
    }
  }

  function responseOf (holding: Holding, found: FoundKey, fingerprint: string): KeptResponse {
    const text = opened(holding, found)
    if (text.slice(0, fingerprintLength) !== fingerprint) throw failure('idempotencyMismatch')
    const { state, status, headers, isLeased } = found
    if (state === 'answered' && status !== null) return { status, headers: headers ?? {}, body: text.slice(fingerprintLength) }
    // A running key whose lease is over can be claimed: another request has done so at this moment.
    throw isLeased || state === 'running' ? requestRunning() : failure('idempotencyAnswerLost')
  }

  async function quietly (tenant: Owner, work: Promise<unknown>): Promise<void> {
    await work.catch((err: unknown) => log.warn({ err, tenant }, 'the response of a request with an idempotency key could not be stored'))
  }

  function claimOf (holding: Holding, fingerprint: string, { encrypted, ...kind }: ClaimKind): Claim {
    const use = { ...holding, ...kind }
    let isKept = false
    const keeping = (response: KeptResponse) => {
      if (Buffer.byteLength(response.body) > maxResponseBytes) return null
      return responseStatement(holding, response, sealed(holding, fingerprint + response.body, encrypted))
    }

    return {
      mark: markStatement(holding),
      keeping,
      kept () {
        isKept = true
      },
      async answered (response) {
        const bytes = Buffer.byteLength(response.body)
        if (bytes <= maxResponseBytes) quota.keep(use, bytes)
        if (isKept) return
        // Marks the key as written even without a response, so that a retry cannot run the request again.
        await quietly(holding.tenant, store.run(holding, keeping(response) ?? lostStatement(holding)))
      },
      lost: () => quietly(holding.tenant, store.run(holding, lostStatement(holding))),
      failed: () =>
        quietly(
          holding.tenant,
          store.release(holding).then((isFreed) => {
            // The key of a write stays for a day.
            if (isFreed) quota.give(use)
          })
        )
    }
  }

  return {
    sweep: () => store.sweep(),

    async claim (request, key, { encrypted }) {
      const { auth = null, tenant } = request
      const holding = { tenant: tenantOrPlatform(tenant), id: idOf(request, key), holder: randomUUID() }
      const isAnonymous = auth === null
      const isAdmin = auth !== null && isPlatformAdmin(auth)
      const fingerprint = fingerprintOf(request)
      const content = sealed(holding, fingerprint, encrypted)
      for (let tries = 0; tries < maxTries; tries++) {
        const found = await store.take({ ...holding, isAnonymous, encrypted, content })
        if (found === undefined) continue
        if (found !== 'taken') return responseOf(holding, found, fingerprint)
        try {
          await quota.take({ ...holding, isAnonymous, isAdmin })
        } catch (error) {
          await quietly(holding.tenant, store.release(holding))
          throw error
        }
        return claimOf(holding, fingerprint, { encrypted, isAnonymous, isAdmin })
      }
      // Other requests may be claiming the key at the same time.
      throw requestRunning()
    }
  }
}

/** Names the caller, then its method, path and key. */
function idOf (request: RouteCall, key: string): Buffer {
  const { method, url } = request
  return Buffer.concat([callerParts(request), [method, pathOf(url), key]].map((parts) =>
    createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, callerBytes)
  ))
}

function fingerprintOf ({ url, body, receivedForm }: RouteCall): string {
  const hash = createHash('sha256').update(JSON.stringify(url.slice(pathOf(url).length)))
  // undefined on routes without forms.
  if (receivedForm) hash.update(receivedForm.digest)
  return (body === undefined ? hash : hash.update(stringifyJson(body))).digest('hex')
}

function pathOf (url: string): string {
  return url.split('?', 1)[0] ?? ''
}
