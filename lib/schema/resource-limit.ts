/** The use of a limited resource by a route. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

/** What a name of a resource, or of what is counted of it, looks like. */
export const limitedName = '^[A-Za-z0-9_.:-]{1,64}$'

const Name = (description: string) =>
  Type.String({
    pattern: limitedName,
    expected: '1 to 64 of A-Z a-z 0-9 _ . : -',
    description: `${description} 1 to 64 of \`A-Z a-z 0-9 _ . : -\`.`
  })

export const maxAmount = Number.MAX_SAFE_INTEGER

export const RouteResourceLimit = Section({
  resource: Name('What the route uses.'),
  metric: Name('What is counted of it.'),
  amount: Type.Optional(Type.Union([
    Type.Integer({ minimum: 1, maximum: maxAmount }),
    Type.String({
      text: 'request',
      pattern: '^\\{\\{[^{}]+\\}\\}$',
      maxLength: 500,
      expected: 'a whole number, or one template such as {{body.quantity}}'
    })
  ], { description: 'How much a request uses: a whole number from 1, or a template that gives one. Default: 1.' }))
}, {
  description:
    "What a request of this route uses of a resource that the tenant limits; it needs `requireAuth`. Refused with 402 where the caller's limit has no room, and given back where the answer is an error."
})
export type RouteResourceLimit = Static<typeof RouteResourceLimit>
