/**
 * Twilio's scheme: `x-twilio-signature: <base64>`, an HMAC-SHA1 of the called address, followed by the sorted names and values of the form.
 * For other bodies, the address contains the hash, as `bodySHA256`. It has no time.
 */
import { createHash, createHmac } from 'node:crypto'
import { formOf, isForm } from './form.js'
import { anyEqual, idOr, invalid, requireSigned, type Delivery, type Scheme } from './scheme.js'

const name = 'x-twilio-signature'

export const twilio: Scheme = {
  headers: [name],
  verify (delivery, secrets) {
    const given = delivery.headers[name]
    if (typeof given !== 'string') throw invalid('a signature')
    const fields = signedFields(delivery)
    const addresses = addressesOf(delivery.url)
    requireSigned(
      secrets,
      (secret) => anyEqual(addresses.map((address) => createHmac('sha1', secret).update(address).update(fields).digest('base64')), given)
    )
  },
  idOf: ({ body, url }) => idOr(undefined, url, body)
}

/** The signed data beside the address; throws for a body without a signature. */
function signedFields ({ body, headers, url }: Delivery): string {
  const [hash, second] = new URLSearchParams(/\?(.*)$/s.exec(url)?.[1] ?? '').getAll('bodySHA256')
  if (hash !== undefined) {
    if (second !== undefined || !anyEqual([hash.toLowerCase()], createHash('sha256').update(body).digest('hex'))) {
      throw invalid('a body of its own')
    }
    return ''
  }
  if (body.length === 0) return ''
  const form = isForm(headers['content-type']) ? formOf(body) : null
  if (form === null) throw invalid('a hash of its body')
  let text = ''
  for (const field of Object.keys(form).sort()) {
    for (const value of [...new Set([form[field] ?? []].flat())].sort()) text += field + value
  }
  return text
}

/** With and without the port: Twilio signs either, independently of the address. */
function addressesOf (url: string): readonly string[] {
  const [, origin = '', host = '', port, rest = ''] = /^(https?:\/\/)([^/?#:]+|\[[^\]]*\])(:\d+)?(.*)$/i.exec(url) ?? []
  const usual = origin.toLowerCase() === 'https://' ? ':443' : ':80'
  return port === undefined ? [url, origin + host + usual + rest] : [url, origin + host + rest]
}
