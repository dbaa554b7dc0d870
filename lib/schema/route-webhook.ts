/** The verification of a signed webhook. */
import { Type, type Static } from 'typebox'
import { algorithms, encodings, webhookProviders } from '../webhooks/index.js'
import { Section } from './annotations.js'

const services = 'payprov (Standard Webhooks), altprov (Stripe), github, slack, twilio, or custom for any other service that signs the body'

/** For routes and for receiving entries of `webhooks`. */
export const signatureMembers = {
  provider: Type.Enum([...webhookProviders], { description: `The service that signs the requests: ${services}.` }),
  secret: Type.String({
    text: 'request',
    minLength: 1,
    maxLength: 4096,
    description:
      'The shared signing secret: `{{env.NAME}}`, or `{{secret:KEY}}` of the tenant. During a rotation, the previous value is also accepted. Without a value, every call is rejected.'
  }),
  header: Type.Optional(
    Type.String({
      text: 'literal',
      pattern: '^[A-Za-z0-9_-]{1,128}$',
      expected: 'the name of a header',
      description: 'For `custom`: the header of the signature.'
    })
  ),
  algorithm: Type.Optional(Type.Enum([...algorithms], { description: 'For `custom`: the hash of the HMAC. Default: `sha256`.' })),
  encoding: Type.Optional(
    Type.Enum([...encodings], { description: 'For `custom`: the encoding of the signature. Default: both are accepted.' })
  )
}

export const RouteWebhook = Section(signatureMembers, {
  description:
    'Another service calls the route; it signs its requests and sends no token. Bodies are JSON or forms; `{{payload.x}}` reads them. Each delivery is processed once.'
})
export type RouteWebhook = Static<typeof RouteWebhook>

/** The same for a route that is made from an entry of `webhooks`. */
export interface SignatureMembers extends RouteWebhook {
  /** The route always answers 200 `{"received": true}`. */
  readonly acknowledges?: true
}
