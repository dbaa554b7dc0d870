/** The addresses that tenants may call. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

export const Egress = Section({
  allow: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 300, expected: 'a host, an address or a CIDR range, each with an optional port' }), {
      maxItems: 1000,
      uniqueItems: true,
      default: [],
      description:
        'Private hosts, addresses and CIDR ranges, each with an optional port, that calls of tenants can reach: `hooks.internal:8080`, `10.0.0.0/8`, `[fd00::1]:443`. A host can resolve to any address.'
    })
  )
}, { default: {}, description: 'The addresses that calls of tenants can reach: public addresses, and the addresses listed here.' })
export type Egress = Filled<Static<typeof Egress>, 'allow'>
