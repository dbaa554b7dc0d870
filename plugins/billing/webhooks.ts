/**
 * The webhook endpoints of payment providers. The body is kept as bytes: its signature is checked before it is parsed. Register them
 * in a context of their own: they replace its parsers.
 */
import { Type } from 'typebox'
import { failure, isFailure } from '../../lib/errors.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { named } from '../../lib/validation/named-schema.js'
import { isRepeated } from '../../lib/webhooks/schemes.js'
import { errorResponses } from '../conventions/index.js'
import { countFailedSignature } from '../rate-limit/check-limit.js'
import { type PaymentProvider, type ProviderName, providerNames } from './providers/provider.js'
import type { Billing } from './service.js'

const bodyLimit = 1_048_576 // bytes; the largest events of either provider have tens of kilobytes

/** `signature`: its headers, which must not repeat. */
const endpoints = {
  payprov: {
    path: '/billing/webhook/payprov',
    signature: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
    summary: 'Receive an event of the payment provider payprov'
  },
  altprov: {
    path: '/webhooks/billing/altprov',
    signature: ['stripe-signature'],
    summary: 'Receive an event of the payment provider altprov'
  }
} satisfies Record<ProviderName, object>

const Received = named('WebhookReceived', Type.Object({ received: Type.Boolean() }))
const Event = named(
  'BillingEvent',
  Type.Object({}, { additionalProperties: true, description: 'The event as documented by the provider, at most 1 MB.' })
)

/**
 * @param receivers providers with a signing secret
 * @param now the clock, in milliseconds since 1970
 */
export function webhookRoutes (
  app: FastifyGroup,
  billing: Billing,
  receivers: ReadonlyMap<ProviderName, PaymentProvider>,
  now: () => number
): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  for (const name of providerNames) addEndpoint(app, name, billing, receivers.get(name), now)
}

function addEndpoint (
  app: FastifyGroup,
  name: ProviderName,
  billing: Billing,
  receiver: PaymentProvider | undefined,
  now: () => number
): void {
  const { path, signature, summary } = endpoints[name]
  const response = { 200: Received, ...errorResponses(400, 401, 413, 415, 429, 500, 503) }

  app.post(path, {
    // Signed requests need no token, and have no limit by address.
    config: {
      access: 'public',
      rateLimitRule: false,
      openapi: {
        tags: ['Billing'],
        summary,
        description:
          'The request must be signed by the provider. An event counts once: further events with the same id are ignored. Unknown kinds of events are accepted and ignored.',
        headers: Type.Object(Object.fromEntries(signature.map((header) => [header, Type.String()]))),
        body: Event,
        response,
        security: []
      }
    },
    bodyLimit,
    schema: { response },
    async onRequest ({ headers }) {
      if (receiver === undefined) throw failure('billingNotConfigured')
      const coding = headers['content-encoding']
      if (coding !== undefined && coding.toLowerCase() !== 'identity') {
        throw failure('mediaTypeUnsupported', { message: 'Send the body without Content-Encoding' })
      }
    }
  }, async (request, reply) => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    if (receiver === undefined) throw failure('billingNotConfigured')
    try {
      if (isRepeated(request.raw.rawHeaders, signature)) throw failure('signatureInvalid')
      const event = receiver.readWebhook(body, request.headers, now())
      if (event !== null) await billing.receive(name, event)
    } catch (error) {
      if (isFailure(error, 'signatureInvalid')) {
        await countFailedSignature(request, reply)
        request.log.warn(
          { provider: name },
          "the signature of a billing webhook is invalid: if the provider sent it, compare the provider's signing secret with the setting"
        )
      }
      throw error
    }
    return { received: true }
  })
}
