/** The log of deliveries, and the generated secret. */
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { noEvents, withNote } from '../../lib/firestore/unsupported.js'
import { callerErrors, errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageQuery, readPage } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody, IdParams, OrNull, Success, Time } from '../../lib/http/schemas.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { eventKinds } from '../../lib/webhooks/events.js'
import { isPlatformAdmin } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { tenantOf } from '../tenancy/required.js'
import { deliveryStatuses } from './store.js'

const maxOffset = 10_000

const Query = ClosedObject({
  status: Optional.Enum('The status of the delivery. `pending`: it waits for its first attempt or a retry.', deliveryStatuses),
  event: Optional.Enum('The kind of event.', eventKinds),
  ...pageQuery('Deliveries', maxOffset)
})

const Delivery = named(
  'WebhookDelivery',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    event: Type.String({ description: 'The kind of event.' }),
    webhook: OrNull(Type.String(), 'The name of the webhook in the document; null for the callback of a workflow run.'),
    url: Type.String({ description: 'The URL of the receiver, without its query string. Templates with settings and secrets are shown as they are declared.' }),
    status: Type.Enum([...deliveryStatuses]),
    attempts: Type.Integer({ description: 'The number of attempts.' }),
    lastStatus: OrNull(Type.Integer(), "The status of the receiver's last response; null if it did not respond."),
    lastError: OrNull(Type.String(), 'The error of the last attempt; null if it succeeded or was not made yet.'),
    nextAttemptAt: OrNull(
      Time(),
      'The time of the next attempt; null if the delivery has ended, or if an earlier delivery for the same entity goes first.'
    ),
    createdAt: Time(),
    deliveredAt: OrNull(Time(), 'The time at which the receiver accepted the delivery.')
  })
)
const Secret = Type.Object({ secret: Type.String({ description: 'The secret in the form `whsec_<base64>` of Standard Webhooks.' }) })

const tags = ['Webhooks']

/** No routes if `app.webhooks` is off. */
export function webhookRoutes (app: FastifyGroup): void {
  const { webhooks } = app

  app.get('/webhooks/deliveries', {
    config: { access: 'tenant-admin', permission: 'webhooks:read' },
    schema: {
      tags,
      summary: 'List webhook deliveries, newest first',
      description: withNote(
        `Lists deliveries of the tenant, or of the platform's own webhooks for platform administrators without \`X-Tenant-ID\`. Deliveries are kept for 30 days. \`total\` counts up to ${maxOffset}.`,
        noEvents,
        app
      ),
      querystring: Query,
      response: { 200: ListOf(Delivery), ...callerErrors() }
    }
  }, (request) => readPage(request, (page) => webhooks.deliveries(ownerOf(request), request.query, page)))

  app.post('/webhooks/deliveries/:id/redeliver', {
    config: { access: 'tenant-admin', permission: 'webhooks:write' },
    schema: {
      tags,
      summary: 'Send a delivery again',
      description:
        'The delivery is sent immediately with the same `webhook-id`, and retried for 24 hours if it fails. A delivery that waits for an earlier delivery of the same entity keeps waiting.',
      params: IdParams,
      bodyOptional: true,
      body: EmptyBody,
      response: { 202: Success, ...callerErrors() }
    }
  }, async (request, reply) => {
    await webhooks.redeliver(ownerOf(request), request.params.id, actorOf(request))
    return await reply.code(202).send({ success: true })
  })

  app.get('/webhooks/secret', {
    config: { access: 'tenant-admin', permission: 'webhooks:write' },
    schema: {
      tags,
      summary: 'Retrieve the default signing secret of webhooks',
      description:
        "The secret signs all webhooks without a secret of their own. It is created at its first use. Platform administrators without `X-Tenant-ID` receive the platform's secret.",
      response: { 200: Secret, ...errorResponses(401, 403, 404, 429, 500, 503) }
    }
  }, async (request) => ({ secret: await webhooks.secretOf(ownerOf(request)) }))
}

/** The tenant of the request; empty for the platform's administrators without one. */
function ownerOf (request: FastifyRequest): string {
  const { auth, tenant } = request
  return tenant === null && auth !== null && isPlatformAdmin(auth) ? '' : tenantOf(request)
}
