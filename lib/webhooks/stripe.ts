/**
 * Stripe's scheme, used by altprov: `stripe-signature: t=<time>,v1=<hex>,...`, an HMAC-SHA256 of `<time>.<body>`. Stripe's own package is
 * not needed, and accepts any future time.
 */
import { createHmac } from 'node:crypto'
import { anyEqual, idOr, invalid, maxSignatures, memberOf, requireSigned, requireTime, type Scheme } from './scheme.js'

const name = 'stripe-signature'

export const stripe: Scheme = {
  headers: [name],
  verify ({ body, headers: { [name]: header }, now }, secrets) {
    if (typeof header !== 'string') throw invalid('a signature')
    const parts = header.split(',', maxSignatures)
    // Several times are refused.
    const times = parts.filter((part) => part.startsWith('t='))
    if (times.length !== 1) throw invalid('its time')
    const time = requireTime(times[0]?.slice(2), now)
    const given = parts.flatMap((part) => part.startsWith('v1=') ? [part.slice(3)] : [])
    requireSigned(secrets, (secret) => anyEqual(given, createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')))
  },
  idOf: ({ body }, payload) => idOr(memberOf(payload, 'id'), body)
}
