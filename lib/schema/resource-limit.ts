/** The use of a limited resource by a route. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

/** The name of a resource or of a metric. */
export const limitedName = '^[A-Za-z0-9_.:-]{1,64}$'

const Name = (description: string) =>
  Type.String({
    pattern: limitedName,
    expected: '1 to 64 of A-Z a-z 0-9 _ . : -',
    description: `${description} 1 to 64 of \`A-Z a-z 0-9 _ . : -\`.`
  })

export const maxAmount = Number.MAX_SAFE_INTEGER

export const RouteResourceLimit = Section({
  resource: Name('The resource that the route uses.'),
  metric: Name('The counted metric of the resource.'),
  amount: Type.Optional(Type.Union([
    Type.Integer({ minimum: 1, maximum: maxAmount }),
    Type.String({
      text: 'request',
      pattern: '^\\{\\{[^{}]+\\}\\}$',
      maxLength: 500,
      expected: 'a whole number, or one template such as {{body.quantity}}'
    })
  ], { description: 'The amount that a request uses: a whole number of at least 1, or a template with such a value. Default: 1.' }))
}, {
  description:
    "The amount of a limited resource that a request uses. It requires `requireAuth`. The request fails with 402 if the caller's limit would be exceeded. The amount is returned if the response is an error."
})
export type RouteResourceLimit = Static<typeof RouteResourceLimit>
