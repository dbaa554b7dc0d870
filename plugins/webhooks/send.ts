/** One attempt to deliver: the address, the signature and the meaning of the response. */
import type { FastifyInstance } from 'fastify'
import { createWarned } from '../../lib/cache/warned.js'
import { type CompiledOutboundWebhook, faultOfUrl } from '../../lib/connectors/outbound-webhook.js'
import { signedHeaders } from '../../lib/connectors/sign.js'
import { isFailure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import { optionalSecretsOf, secretKeysOf } from '../../lib/expressions/reference.js'
import type { CompiledValue, Scope } from '../../lib/expressions/types.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import { useSecrets } from '../../lib/runtime/secrets.js'
import { callbackPlace, type SecretCipher, SecretUnreadable } from '../../lib/secrets/cipher.js'
import { depthHeader, maxDepth } from '../../lib/webhooks/depth.js'
import { maxSigningSecret } from '../../lib/webhooks/scheme.js'
import { nextAttempt } from './retry.js'
import type { SigningSecrets } from './secret.js'
import type { Attempt, Ending } from './store.js'
import type { SubscriberDirectory } from './subscribers.js'

const loop = `${maxDepth} webhooks led to this event: they start each other`
const tooLong = 'the address or the secret of the callback is too long'
const notDeclared = 'the document no longer has a webhook with this name'
const gone = 410 // the receiver wants no further deliveries (Standard Webhooks)

export interface SenderParts {
  readonly app: FastifyInstance
  readonly subscribers: SubscriberDirectory
  readonly secrets: SigningSecrets
  readonly cipher: SecretCipher
  readonly now: () => number
  /** Milliseconds for the whole response of a receiver. */
  readonly timeoutMs: number
}

/** Makes the attempt; rejects only if the database is unreachable, or if the signal ends it. */
export type Send = (attempt: Attempt, signal: AbortSignal) => Promise<Ending>

/** Where a delivery goes. */
interface Target {
  readonly url: string
  readonly secret: string
  readonly trusted: boolean
}

export function createSend ({ app, subscribers, secrets, cipher, now, timeoutMs }: SenderParts): Send {
  const values = optional(app, 'secrets')
  const warned = createWarned()

  /** A string is the reason why the target cannot be called. null: the webhook no longer exists. */
  async function targetOf (attempt: Attempt): Promise<Target | string | null> {
    const { tenant, endpoint, sealed, id } = attempt
    if (sealed !== null) return await ofCallback(tenant, cipher.decrypt(callbackPlace(tenant, id), sealed))
    const { webhooks } = tenant === platformRef ? subscribers.platform : await subscribers.of(tenant)
    const webhook = webhooks.find(({ name }) => name === endpoint)
    return webhook === undefined ? null : await ofWebhook(tenant, webhook)
  }

  async function ofCallback (tenant: Owner, text: string): Promise<Target | string> {
    const { url, secret, trusted }: { url?: unknown, secret?: unknown, trusted?: unknown } = Object(JSON.parse(text))
    const fault = faultOfUrl(url)
    if (typeof url !== 'string' || fault !== null) return `invalid address: ${fault}`
    return { url, secret: typeof secret === 'string' ? secret : await secrets.of(tenant), trusted: trusted === true }
  }

  async function ofWebhook (tenant: Owner, { url, secret, trusted }: CompiledOutboundWebhook): Promise<Target | string> {
    const references = secret === null ? url.references : [...url.references, ...secret.references]
    const uses = { secrets: secretKeysOf(references), optionalSecrets: optionalSecretsOf(references) }
    const scope: Scope = { ...noScope, secrets: await useSecrets({ secrets: values(), warned }, tenant, uses, app.log) }
    const address = textOf(url, scope)
    const signing = secret === null ? await secrets.of(tenant) : textOf(secret, scope)
    if (address === null || signing === null) return 'the secret of the webhook has no value'
    const fault = faultOfUrl(address)
    return fault === null ? { url: address, secret: signing, trusted } : `invalid address: ${fault}`
  }

  return async (attempt, signal) => {
    const { attempts, giveUpAt, tenant, source, depth } = attempt
    const failed = (status: number | null, error: string, called = true): Ending => ({
      ...failedPermanently(status, error),
      again: nextAttempt(attempts, new Date(now()), giveUpAt, called)
    })
    // A tenant decides about the depths of its events, and must not keep them from the platform.
    if (depth >= maxDepth && source === '') return failedPermanently(null, loop)
    try {
      const target = await targetOf(attempt)
      if (target === null) return failedPermanently(null, attempt.endpoint === '' ? tooLong : notDeclared)
      if (typeof target === 'string') return failed(null, target)
      const { url, secret, trusted } = target
      const body = bodyOf(attempt)
      const headers = headersOf(secret, body, attempt, now())
      const { status } = await app.outbound.request({ tenant, trusted, method: 'POST', url, headers, body, timeoutMs, signal })
      if (status >= 200 && status < 300) return { delivered: true, status, error: null, again: null }
      if (status === gone) return failedPermanently(status, 'the receiver rejected further deliveries')
      const isRedirect = status >= 300 && status < 400
      return failed(status, isRedirect ? 'the receiver responded with a redirect, which is not followed' : 'the receiver responded with an error')
    } catch (error) {
      if (signal.aborted) throw error
      const reason = reasonOf(error, timeoutMs)
      if (reason === null) throw error
      return failed(null, reason, !isFailure(error, 'providerBusy'))
    }
  }
}

function failedPermanently (status: number | null, error: string): Ending {
  return { delivered: false, status, error, again: null }
}

function bodyOf ({ type, at, source, data }: Attempt): string {
  // Receivers of the platform get the events of all tenants.
  const from = source === '' ? '' : `"tenant":${JSON.stringify(source)},`
  return `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(at.toISOString())},${from}"data":${data}}`
}

function headersOf (secret: string, body: string, { messageId, depth }: Attempt, now: number): Record<string, string> {
  return {
    'content-type': 'application/json; charset=utf-8',
    'user-agent': 'tenantry-webhooks',
    [depthHeader]: String(Math.min(depth + 1, maxDepth)),
    ...signedHeaders(secret, body, messageId, now)
  }
}

/** For the log of deliveries; null if the error is not the receiver's. */
function reasonOf (error: unknown, timeoutMs: number): string | null {
  if (isFailure(error, 'addressRefused')) return 'the address is private or forbidden; nothing was sent'
  if (isFailure(error, 'providerTimeout')) return `no response within ${timeoutMs / 1000} s`
  if (isFailure(error, 'providerFailed')) return 'no connection, or an invalid or too large response'
  if (isFailure(error, 'providerBusy')) return 'not called because the receiver kept failing, or too many calls are running'
  if (isFailure(error, 'credentialsRequired')) return 'the signing secret is empty or invalid'
  if (isFailure(error, 'badRequest')) return 'the address cannot be used in a request'
  if (error instanceof SecretUnreadable) return 'the signing secret cannot be decrypted: the master key that encrypted it is missing'
  return null
}

/** The address or the secret of a webhook; null if it is too long. A secret without a value is null, or still contains its template. */
function textOf (value: CompiledValue, scope: Scope): string | null {
  const text = value.evaluate(scope)
  return typeof text === 'string' && text !== '' && text.length <= maxSigningSecret && !text.includes('{{') ? text : null
}
