/** Webhook routes: verifies the signature of each request, and handles each delivery once. */
import { createHash, createHmac } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Warned } from '../../lib/cache/warned.js'
import type { CompiledWebhook } from '../../lib/compiler/webhook.js'
import { failure, isFailure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import { hasTemplate } from '../../lib/expressions/template-parser.js'
import { originOf } from '../../lib/http/request-target.js'
import { type Owner, platformRef, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import type { RouteServices } from '../../lib/runtime/services.js'
import { maxSigningSecret } from '../../lib/webhooks/scheme.js'
import { challengeOf, type Delivery, isRepeated } from '../../lib/webhooks/schemes.js'
import { countFailedSignature } from '../rate-limit/check-limit.js'
import type { Secrets } from '../secrets/service.js'
import { createReadBody, requireReadable } from './signed-body.js'
import type { WebhookDeduplication } from './webhook-deduplication.js'

const contentType = 'application/json; charset=utf-8'
const received = '{"received":true}'
const maxPath = 1000 // characters; an entry of a PostgreSQL index has some 2,700 bytes, tenant and id included

interface InboundOptions {
  /** null without the plugin: then no tenant has a signing secret. */
  readonly secrets: Secrets | null
  /** The public address of the app, without a path. A sender may sign it in place of the address in the request. May be empty. */
  readonly appUrl: string
  readonly warned: Warned
  readonly deduplication: WebhookDeduplication
}

/**
 * Runs the work of a signed request, with its parsed body as `request.body`, and resolves with the work's result. For a
 * delivery that was handled before, nothing runs and the response is `{"received":true}`. Rejects with `signatureInvalid` (always,
 * if there is no secret), `mediaTypeUnsupported`, `badRequest`, `rateLimited` and the work's own errors.
 */
export function createInbound (
  app: FastifyInstance,
  { secrets, appUrl, warned, deduplication }: InboundOptions
): RouteServices<FastifyRequest, FastifyReply>['inbound'] {
  const readBody = createReadBody(app)

  return async (webhook, request, reply, work) => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    requireReadable(request, body)
    const { scheme, provider } = webhook
    const delivery = { body, headers: request.headers, ...addressOf(request, appUrl), now: Date.now() }
    const tenant = tenantOrPlatform(request.tenant)
    // undefined without the plugin tenant-config.
    const isOfTenant = (request.tenantRoute ?? null) !== null
    const { accepted, own } = await signingSecrets(webhook, { tenant, isOfTenant }, secrets)
    try {
      if (isRepeated(request.raw.rawHeaders, scheme.headers)) throw failure('signatureInvalid')
      scheme.verify(delivery, accepted)
    } catch (error) {
      if (!isFailure(error, 'signatureInvalid')) throw error
      await countFailedSignature(request, reply)
      if (accepted.length === 0) warn(unsigned(request, webhook, tenant))
      else warn('the signature of a webhook is invalid: if the service sent it, compare its signing secret', error.cause)
      throw error
    }
    request.signed = true
    const payload = await readBody(request, body, provider)
    reply.header('content-type', contentType)
    const challenge = provider === 'slack' ? challengeOf(payload) : null
    if (challenge !== null) return JSON.stringify({ challenge })
    request.body = payload
    const path = pathOf(webhook.path, request.params)
    const id = scheme.idOf(delivery, payload)
    const once = () => deduplication.once({ tenant, path, id }, work)
    const onceForAll = () => {
      const signedId = scheme.signedIdOf?.(delivery)
      const shared = { tenant: platformRef, path, id: sharedId(accepted, signedId ?? id) }
      return deduplication.once(shared, signedId === undefined ? work : once)
    }
    // A shared secret signs for every tenant: the delivery is handled only for the first tenant that it names.
    const response = await (own ? once() : onceForAll())
    if (response !== undefined && !webhook.acknowledges) return response
    reply.code(200)
    return received

    /** Logs each problem once: unauthenticated callers may send a thousand requests a second. */
    function warn (message: string, cause?: unknown): void {
      if (!warned.isFirst(tenant, message, webhook.path)) return
      // An error that is not `err` has no text in the log.
      request.log.warn({ provider, ...cause instanceof Error && { cause: cause.message } }, message)
    }
  }
}

/** The reason that no secret can have signed the call, for the log: the caller gets no part of it. */
function unsigned ({ routeOptions: { config } }: FastifyRequest, { key }: CompiledWebhook, tenant: Owner): string {
  if (key === null) return 'a webhook has no signing secret: every call is rejected'
  if (tenant !== platformRef) {
    return `a webhook has no signing secret: the secret "${key}" is missing or has expired, and every call is rejected`
  }
  const next = config.publicTenant === false
    ? 'the route has `"public": false`, which excludes ?tenant=<id>'
    : 'add ?tenant=<id> to its address'
  return `a webhook names no tenant, whose secret "${key}" signs: ${next}`
}

/**
 * Excludes empty and too long secrets, and templates without a value: their text is public, as it is in the document. `isOfTenant`: the
 * tenant's document declares the route. `own`: the secrets belong to the tenant.
 */
async function signingSecrets (
  { secret, key }: CompiledWebhook,
  { tenant, isOfTenant }: { readonly tenant: Owner, readonly isOfTenant: boolean },
  secrets: Secrets | null
) {
  if (key === null) return { accepted: [secret.evaluate(noScope)].filter(isSecret), own: isOfTenant && secret.references.length === 0 }
  const values = tenant === platformRef || secrets === null ? [] : await secrets.accepted(tenant, key)
  if (values.length > 0) {
    return {
      accepted: values.map((value) => secret.evaluate({ ...noScope, secrets: new Map([[key, value]]) })).filter(isSecret),
      own: true
    }
  }
  return { accepted: [secret.evaluate(noScope)].filter(isSecret).filter((text) => !hasTemplate(text)), own: false }
}

/** Keyed with the secret, so that only a sender who knows the secret can use up the id. */
function sharedId ([secret = '']: readonly string[], id: string): string {
  return `hmac:${createHmac('sha256', secret).update(id).digest('base64url')}`
}

function isSecret (value: unknown): value is string {
  return typeof value === 'string' && value.length <= maxSigningSecret && value.trim() !== ''
}

/** The addresses that the sender may have signed: a proxy may have changed the host, and the app may have another host than the API. */
function addressOf ({ protocol, host, originalUrl }: FastifyRequest, appUrl: string): Pick<Delivery, 'target' | 'origins'> {
  const origin = originOf(originalUrl)
  const own = origin === '' ? `${protocol}://${host}` : origin
  return { target: originalUrl.slice(origin.length), origins: appUrl === '' ? [own] : [own, appUrl] }
}

/**
 * The path with its parameters, encoded the same way for every spelling of a request. A path too long for an index is replaced by its hash.
 */
function pathOf (path: string, params: unknown): string {
  const given: Readonly<Record<string, unknown>> = Object(params)
  const text = path.split('/').map((segment) => segment.startsWith(':') ? encodeURIComponent(String(given[segment.slice(1)])) : segment)
    .join('/')
  return text.length <= maxPath ? text : `sha256:${createHash('sha256').update(text).digest('base64url')}`
}
