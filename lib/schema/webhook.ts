/** Webhooks of a document: those that send, and those that receive. */
import { Type, type Static } from 'typebox'
import { eventPatterns } from '../webhooks/events.js'
import { Section } from './annotations.js'
import { Integration } from './integration.js'
import { signatureMembers } from './route-webhook.js'
import { RouteWorkflow } from './workflow.js'

const Name = Type.String({
  pattern: '^[A-Za-z0-9_-]{1,64}$',
  expected: '1 to 64 of A-Z a-z 0-9 _ -',
  description: 'The unique name in the list of deliveries.'
})

export const OutboundWebhook = Section({
  name: Name,
  url: Type.String({
    text: 'request',
    minLength: 1,
    maxLength: 2000,
    description:
      "The URL that receives events, by POST: http or https. It can contain `{{secret:KEY}}` and `{{env.NAME}}`. It must not be a private address for a tenant's webhook."
  }),
  events: Type.Array(Type.Enum([...eventPatterns]), {
    minItems: 1,
    maxItems: eventPatterns.length,
    uniqueItems: true,
    description: 'The subscribed events, or groups of events such as `entity.*`.'
  }),
  secret: Type.Optional(
    Type.String({
      text: 'request',
      minLength: 1,
      maxLength: 1000,
      description:
        'The signing secret, `whsec_<base64>` or any text: `{{secret:KEY}}` or `{{env.NAME}}`. Default: the generated secret of `GET /webhooks/secret`.'
    })
  )
}, { description: 'Sends events, each a signed POST (Standard Webhooks).' })
export type OutboundWebhook = Static<typeof OutboundWebhook>

export const InboundWebhook = Section({
  name: Name,
  path: Type.String({
    text: 'literal',
    pattern: '^/',
    maxLength: 500,
    expected: 'a path that starts with `/`',
    description: 'The path that receives requests, by POST; `:name` is a parameter.'
  }),
  ...signatureMembers,
  actions: Type.Optional(
    Type.Array(Integration, {
      minItems: 1,
      maxItems: 20,
      description: 'Calls to other services for each event, in order; `{{payload.x}}` reads the event.'
    })
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
