/** Webhooks of a document: those that send, those that receive, and the verification of signatures. */
import { type Static, Type } from 'typebox'
import { eventPatterns } from '../webhooks/events.js'
import { algorithms, encodings, webhookProviders } from '../webhooks/schemes.js'
import { ClosedObject, Optional, plainName } from './annotations.js'
import { Integration } from './integrations.js'
import { RouteWorkflow } from './workflow.js'

const services = 'payprov (Standard Webhooks), altprov (Stripe), github, slack, twilio, or custom for any other service that signs the body'

/** For routes and for receiving entries of `webhooks`. */
const signatureMembers = {
  provider: Type.Enum([...webhookProviders], { description: `The service that signs the requests: ${services}.` }),
  secret: Type.String({
    text: 'request',
    minLength: 1,
    maxLength: 4096,
    description:
      'The shared signing secret: `{{env.NAME}}`, or `{{secret:KEY}}` of the tenant. During a rotation, the previous value is also accepted. Without a value, every call is rejected.'
  }),
  header: Optional.String(
    'For `custom`: the header of the signature.',
    { text: 'literal', pattern: '^[A-Za-z0-9_-]{1,128}$', expected: 'the name of a header' }
  ),
  algorithm: Optional.Enum('For `custom`: the hash of the HMAC. Default: `sha256`.', [...algorithms]),
  encoding: Optional.Enum('For `custom`: the encoding of the signature. Default: both are accepted.', [...encodings])
}

export const RouteWebhook = ClosedObject(signatureMembers, {
  description:
    'Another service calls the route; it signs its requests and sends no token. Bodies are JSON or forms; `{{payload.x}}` reads them. Each delivery is processed once.'
})
export type RouteWebhook = Static<typeof RouteWebhook>

/** The same for a route that is made from an entry of `webhooks`. */
export interface SignatureMembers extends RouteWebhook {
  /** The route always answers 200 `{"received": true}`. */
  readonly acknowledges?: true
}

const Name = Type.String({ ...plainName, description: 'The unique name in the list of deliveries.' })

export const OutboundWebhook = ClosedObject({
  name: Name,
  url: Type.String({
    text: 'request',
    minLength: 1,
    maxLength: 2000,
    description:
      "The URL that receives events, by POST: http or https. It can contain `{{secret:KEY}}` in a tenant's document, `{{env.NAME}}` in the platform's. It must not be a private address for a tenant's webhook."
  }),
  events: Type.Array(Type.Enum([...eventPatterns]), {
    minItems: 1,
    maxItems: eventPatterns.length,
    uniqueItems: true,
    description: 'The subscribed events, or groups of events such as `entity.*`.'
  }),
  secret: Optional.String(
    "The signing secret, `whsec_<base64>` or any text: `{{secret:KEY}}` in a tenant's document, `{{env.NAME}}` in the platform's. Default: the generated secret of `GET /webhooks/secret`.",
    { text: 'request', minLength: 1, maxLength: 1000 }
  )
}, { description: 'Sends events, each a signed POST (Standard Webhooks).' })
export type OutboundWebhook = Static<typeof OutboundWebhook>

export const InboundWebhook = ClosedObject({
  name: Name,
  path: Type.String({
    text: 'literal',
    pattern: '^/',
    maxLength: 500,
    expected: 'a path that starts with `/`',
    description: 'The path that receives requests, by POST; `:name` is a parameter.'
  }),
  ...signatureMembers,
  actions: Optional.Array(
    'Calls to other services for each event, in order; `{{payload.x}}` reads the event.',
    Integration,
    { minItems: 1, maxItems: 20 }
  ),
  workflow: Type.Optional(RouteWorkflow)
}, { description: 'Receives events that another service signs: a route with the response `{"received": true}`.' })
export type InboundWebhook = Static<typeof InboundWebhook>

export const Webhook = Type.Union([OutboundWebhook, InboundWebhook])
export type Webhook = Static<typeof Webhook>

export const Webhooks = Type.Array(Webhook, {
  maxItems: 200,
  default: [],
  description: 'Events to or from other services.'
})
export type Webhooks = Static<typeof Webhooks>

/** The webhooks that send. */
export function outboundOf (webhooks: readonly Webhook[]): OutboundWebhook[] {
  return webhooks.filter((webhook) => 'url' in webhook)
}
