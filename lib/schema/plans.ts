/** Plans in the document. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

/** Secrets of one tenant on any plan: each serving process keeps their values in memory. */
export const maxSecretsOfAny = 10_000

const most = 1_000_000_000 // bytes, millionths of a dollar or requests; still a whole number in JSON

const limit = (description: string, { minimum = 0, maximum = most, unit }: { minimum?: number, maximum?: number, unit?: string } = {}) =>
  Type.Optional(Type.Union(
    [
      Type.Literal(-1),
      Type.Integer({ minimum, maximum, expected: `-1 (unlimited), or ${minimum} to ${maximum}`, ...unit !== undefined && { unit } })
    ],
    { description: `${description} -1 means unlimited.` }
  ))

const amount = (description: string, none: string) =>
  Optional.Union(
    `${description} -1 means ${none}.`,
    [Type.Literal(-1), Type.Number({ minimum: 0, maximum: most, expected: `-1 (${none}), or 0 to ${most}` })]
  )

const PlanChanges = ClosedObject({
  name: Optional.String('The display name. Default for a new tier: the tier.', { minLength: 1, maxLength: 100 }),
  description: Optional.String('A description for customers.', { maxLength: 1000 }),
  price: Type.Optional(ClosedObject({
    monthly: amount('The price per month.', 'by agreement'),
    yearly: amount('The price per year.', 'by agreement'),
    currency: Optional.String(
      'The ISO 4217 code of the currency.',
      { pattern: '^[A-Z]{3}$', expected: 'a currency of ISO 4217 such as `USD`' }
    )
  }, {
    description: 'The prices. Plans are sorted by their price per month, then as listed; plans with a price by agreement come last.'
  })),
  limits: Type.Optional(ClosedObject({
    websocket: Type.Optional(ClosedObject({
      maxConnections: limit('The number of concurrent connections.'),
      maxEntitiesWatched: limit('The number of concurrently watched entities.'),
      maxRooms: limit('The number of concurrent rooms.')
    }, { description: 'Limits of realtime connections.' })),
    fileStorage: Type.Optional(ClosedObject({
      maxStorageMB: limit('The total size of all files.', { unit: 'MB' }),
      maxFileSizeMB: limit('The size of one file.', { unit: 'MB' })
    }, { description: 'Files. 1 MB is 1,048,576 bytes.' })),
    api: Type.Optional(ClosedObject({
      requestsPerMinute: limit('The number of requests per minute. Requests are counted unless `rateLimit.enabled` is false.', { minimum: 1 })
    }, { description: 'Limits of the API.' })),
    ai: Type.Optional(ClosedObject({
      llmTokensPerMonth: limit('The number of tokens of language models per month.', { maximum: 1_000_000_000_000 }),
      maxCostPerMonth: amount('The cost of language models per month, in USD.', 'unlimited')
    }, { description: 'Limits of language models.' })),
    tenantConfig: Type.Optional(ClosedObject({
      maxSecrets: limit('The number of secrets, at most 10,000.', { maximum: maxSecretsOfAny }),
      rotation: Optional.Boolean('Allows rotation of secrets.'),
      auditRetentionDays: limit('The time for which audit entries are kept.', { maximum: 36_500, unit: 'days' })
    }, { description: 'Limits of secrets.' }))
  }, { description: 'The limits and features of the plan.' }))
}, { description: 'Changes to a built-in plan, or the definition of a new tier as changes to the plan `free`.' })

export const Plans = Type.Record(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }), PlanChanges, {
  additionalProperties: false,
  default: {},
  expected: '1 to 64 characters of `A-Z a-z 0-9 _ -`',
  description: 'Plans by tier: changes to `free`, `pro`, `team`, `scale` and `enterprise`, and new tiers, at most 30 in total.'
})
export type Plans = Static<typeof Plans>
