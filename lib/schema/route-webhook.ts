/** The verification of a signed webhook. */
import { Type, type Static } from 'typebox'
import { algorithms, encodings, webhookProviders } from '../webhooks/index.js'
import { Section } from './annotations.js'

const services = 'payprov (Standard Webhooks), altprov (Stripe), github, slack, twilio, or custom for any other service that signs the body'

/** Of a route, and of an entry of `webhooks` that receives. */
export const signatureMembers = {
  provider: Type.Enum([...webhookProviders], { description: `Whose signature is verified: ${services}.` }),
  secret: Type.String({
    text: 'request',
    minLength: 1,
    maxLength: 4096,
    description:
      'The shared signing secret: `{{env.NAME}}`, or `{{secret:KEY}}` of the tenant, of which a rotation accepts the value of before too. Without a value every call is refused.'
  }),
  header: Type.Optional(
    Type.String({
      text: 'literal',
      pattern: '^[A-Za-z0-9_-]{1,128}$',
      expected: 'the name of a header',
      description: 'Of `custom`: the header of the signature.'
    })
  ),
  algorithm: Type.Optional(Type.Enum([...algorithms], { description: 'Of `custom`: the hash of the HMAC. Default: `sha256`.' })),
  encoding: Type.Optional(Type.Enum([...encodings], { description: 'Of `custom`: how the signature is written. Default: either.' }))
}

export const RouteWebhook = Section(signatureMembers, {
  description:
    'The route is called by another service, which signs its requests and sends no token. JSON and form bodies; `{{payload.x}}` reads them. Each delivery is handled once.'
})
export type RouteWebhook = Static<typeof RouteWebhook>

/** As a route has them that an entry of `webhooks` is. */
export interface SignatureMembers extends RouteWebhook {
  /** It answers 200 `{"received": true}`, whatever came of it. */
  readonly acknowledges?: true
}
