/** Any service that signs its body alone: an HMAC of it in a header, in hexadecimal or base64. It has no time and no id. */
import type { Scheme } from './scheme.js'
import { createHmac } from 'node:crypto'
import { anyEqual, idOr, invalid } from './scheme.js'

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
      let isRight = false
      for (const secret of secrets) {
        if (secret === '') continue
        const right = createHmac(algorithm, secret).update(body).digest()
        // Letters of hexadecimal are the same in upper and lower case, those of base64 are not.
        for (const form of accepted) if (anyEqual([form === 'hex' ? given.toLowerCase() : given], right.toString(form))) isRight = true
      }
      if (!isRight) throw invalid('a signature of its own')
    },
    idOf: ({ body }) => idOr(undefined, body)
  }
}
