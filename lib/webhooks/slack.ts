/** Slack's scheme: `x-slack-signature: v0=<hex>`, an HMAC-SHA256 of `v0:<time>:<body>`. */
import { createHmac } from 'node:crypto'
import { anyEqual, idOr, invalid, memberOf, requireSigned, requireTime, type Scheme } from './scheme.js'

const [signature, timestamp] = ['x-slack-signature', 'x-slack-request-timestamp']

export const slack: Scheme = {
  headers: [signature, timestamp],
  verify ({ body, headers: { [signature]: given, [timestamp]: at }, now }, secrets) {
    const time = requireTime(at, now)
    if (typeof given !== 'string') throw invalid('a signature')
    requireSigned(
      secrets,
      (secret) => anyEqual([given], `v0=${createHmac('sha256', secret).update(`v0:${time}:`).update(body).digest('hex')}`)
    )
  },
  // Commands and interactions have no id: a repetition has the same time.
  idOf: ({ body, headers }, payload) => idOr(memberOf(payload, 'event_id'), String(headers[timestamp]), body)
}

/** Slack's check of an address before it sends events: the text of the response. null for any other event. */
export function challengeOf (payload: unknown): string | null {
  const challenge = memberOf(payload, 'type') === 'url_verification' ? memberOf(payload, 'challenge') : undefined
  return typeof challenge === 'string' ? challenge : null
}
