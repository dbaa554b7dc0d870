/**
 * GitHub's scheme: `x-hub-signature-256: sha256=<hex>`, an HMAC-SHA256 of the body. It has no time, and the headers with the id of the
 * delivery and the name of the event are not signed.
 */
import { createHmac } from 'node:crypto'
import { anyEqual, idOr, invalid, requireSigned, type Scheme } from './scheme.js'

const name = 'x-hub-signature-256'

export const github: Scheme = {
  headers: [name, 'x-github-delivery'],
  verify ({ body, headers: { [name]: given } }, secrets) {
    if (typeof given !== 'string') throw invalid('a signature')
    requireSigned(secrets, (secret) => anyEqual([given], `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`))
  },
  idOf: ({ body, headers }) => idOr(headers['x-github-delivery'], body),
  // The header is not signed.
  signedIdOf: ({ body }) => idOr(undefined, body)
}
