/** The schemes of signed webhooks, by their names in documents. */
import type { Scheme } from './scheme.js'
import { github } from './github.js'
import { slack } from './slack.js'
import { standard } from './standard.js'
import { stripe } from './stripe.js'
import { twilio } from './twilio.js'

export type { Delivery, Scheme } from './scheme.js'
export { algorithms, custom, encodings } from './custom.js'
export { isRepeated } from './scheme.js'

export const webhookProviders = ['payprov', 'altprov', 'github', 'slack', 'twilio', 'custom'] as const
export type WebhookProvider = typeof webhookProviders[number]

/** Schemes without further settings in the document. */
export const schemes: Readonly<Record<Exclude<WebhookProvider, 'custom'>, Scheme>> = {
  payprov: standard,
  altprov: stripe,
  github,
  slack,
  twilio
}
