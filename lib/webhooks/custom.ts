/** Any service that signs only its body: an HMAC in a header, in hexadecimal or base64, without a time and an id. */
import { createHmac } from 'node:crypto'
import { anyEqual, idOr, invalid, requireSigned, type Scheme } from './scheme.js'

export const algorithms = ['sha256', 'sha512', 'sha1'] as const
export const encodings = ['hex', 'base64'] as const

export interface CustomOptions {
  /** The header of the signature, which may begin with `<algorithm>=`. */
  readonly header: string
  /** Default: `sha256`. */
  readonly algorithm?: typeof algorithms[number] | undefined
  /** Default: either. */
  readonly encoding?: typeof encodings[number] | undefined
}

export function custom ({ header, algorithm = 'sha256', encoding }: CustomOptions): Scheme {
  const name = header.toLowerCase()
  const prefix = `${algorithm}=`
  const accepted = encoding === undefined ? encodings : [encoding]
  return {
    headers: [name],
    verify ({ body, headers }, secrets) {
      const text = headers[name]
      if (typeof text !== 'string') throw invalid('a signature')
      const given = text.startsWith(prefix) ? text.slice(prefix.length) : text
      requireSigned(secrets, (secret) => {
        const right = createHmac(algorithm, secret).update(body).digest()
        // Hexadecimal ignores case, base64 does not.
        return accepted.some((form) => anyEqual([form === 'hex' ? given.toLowerCase() : given], right.toString(form)))
      })
    },
    idOf: ({ body }) => idOr(undefined, body)
  }
}
