/** Errors for failures of a provider. They contain no text of the provider, because it may repeat the key or the prompt. */
import { codeOf, failure, retryIn, TenantryError } from '../errors.js'
import { retryAfterOf } from '../time/retry-after.js'

const defaultRetryAfter = 5 // s
const maxRetryAfter = 3600 // s

/** Errors of calls that were charged. */
const charged = new WeakSet<Error>()

/** Marks the error of a call that the tenant was charged for. */
export function markCharged (error: unknown): void {
  if (error instanceof Error) charged.add(error)
}

/** Whether a retry of the call would be charged again. */
export function isCharged (error: unknown): boolean {
  return error instanceof Error && charged.has(error)
}

/** The owner of a call's API key. */
export type KeyOwner = 'tenant' | 'platform'

/** The error for a provider's status outside 200 to 299. */
export function statusFailure (status: number, retryAfter: string | undefined, owner: KeyOwner): TenantryError {
  switch (status) {
    case 401:
    case 402:
    case 403:
      if (owner === 'tenant') return failure('providerKeyRefused')
      return failure('providerFailed', { message: "The provider rejected the server's key: the operator must renew it" })
    case 404:
      return failure('providerFailed', {
        message: "The provider does not know the model: the operator must correct the server's document"
      })
    case 400:
    case 413:
    case 422:
      return failure('providerFailed', {
        message: 'The provider rejected the request: the model does not support a message, an image, a parameter or `responseFormat`'
      })
    case 429:
    case 529:
      return failure('providerBusy', retryIn(Math.min(maxRetryAfter, Math.max(1, retryAfterOf(retryAfter) ?? defaultRetryAfter))))
    case 408:
      return failure('providerTimeout')
    default:
      return failure('providerFailed')
  }
}

/** The error for a failed connection. It keeps only the code of the original error, whose members may contain bytes of the response. */
export function connectionFailure (error: unknown): TenantryError {
  const code = codeOf(error) ?? 'unknown'
  return failure(code === 'UND_ERR_CONNECT_TIMEOUT' ? 'providerTimeout' : 'providerFailed', {
    cause: new Error(`the connection to the provider failed: ${code}`)
  })
}

/** The error for a response that the SDK cannot read. */
export function unreadable (error: unknown, expected?: string): TenantryError {
  if (error instanceof TenantryError) return error
  const name = error instanceof Error ? error.name : typeof error
  return failure('providerFailed', {
    message: `The response of the provider cannot be read${expected === undefined ? '' : `: expected ${expected}`}`,
    cause: new Error(`the response of the provider cannot be read: ${name.slice(0, 100)}`)
  })
}
