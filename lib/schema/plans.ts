/** Plans in the document. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

/** Secrets of one tenant on any plan: each serving process keeps their values in memory. */
export const maxSecretsOfAny = 10_000

const most = 1_000_000_000 // bytes, millionths of a dollar or requests; still a whole number in JSON

const limit = (description: string, { minimum = 0, maximum = most, unit }: { minimum?: number, maximum?: number, unit?: string } = {}) =>
  Type.Optional(Type.Union(
    [
      Type.Literal(-1),
      Type.Integer({ minimum, maximum, expected: `-1 (unlimited), or ${minimum} to ${maximum}`, ...unit !== undefined && { unit } })
    ],
    { description: `${description} -1 is unlimited.` }
  ))

const amount = (description: string, none: string) =>
  Type.Optional(Type.Union(
    [Type.Literal(-1), Type.Number({ minimum: 0, maximum: most, expected: `-1 (${none}), or 0 to ${most}` })],
    { description: `${description} -1 is ${none}.` }
  ))

export const PlanChanges = Section({
  name: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'The display name. Default for an added tier: the tier.' })
  ),
  description: Type.Optional(Type.String({ maxLength: 1000, description: 'A description for customers.' })),
  price: Type.Optional(Section({
    monthly: amount('For a month.', 'by agreement'),
    yearly: amount('For a year.', 'by agreement'),
    currency: Type.Optional(
      Type.String({ pattern: '^[A-Z]{3}$', expected: 'a currency of ISO 4217 such as `USD`', description: 'ISO 4217.' })
    )
  }, {
    description:
      'Prices. Plans are in the order of their price for a month, those by agreement last, and those of the same price as they are listed.'
  })),
  limits: Type.Optional(Section({
    websocket: Type.Optional(Section({
      maxConnections: limit('Connections at a time.'),
      maxEntitiesWatched: limit('Entities that are watched at a time.'),
      maxRooms: limit('Rooms at a time.')
    }, { description: 'Realtime connections.' })),
    fileStorage: Type.Optional(Section({
      maxStorageMB: limit('All files.', { unit: 'MB' }),
      maxFileSizeMB: limit('One file.', { unit: 'MB' })
    }, { description: 'Files. 1 MB is 1,048,576 bytes.' })),
    api: Type.Optional(Section({
      requestsPerMinute: limit('Requests a minute; they are counted unless `rateLimit.enabled` is false.', { minimum: 1 })
    }, { description: 'The API.' })),
    ai: Type.Optional(Section({
      llmTokensPerMonth: limit('Tokens of language models a month.', { maximum: 1_000_000_000_000 }),
      maxCostPerMonth: amount('What these may cost a month, in USD.', 'unlimited')
    }, { description: 'Language models.' })),
    tenantConfig: Type.Optional(Section({
      maxSecrets: limit('Secrets; no tenant has more than 10,000.', { maximum: maxSecretsOfAny }),
      rotation: Type.Optional(Type.Boolean({ description: 'Allows rotation of secrets.' })),
      auditRetentionDays: limit('For how long audit entries are kept.', { maximum: 36_500, unit: 'days' })
    }, { description: 'Secrets.' }))
  }, { description: 'The limits and features of the plan.' }))
}, { description: 'Changes to a built-in plan, or, for an added tier, to the plan `free`.' })
export type PlanChanges = Static<typeof PlanChanges>

export const Plans = Type.Record(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }), PlanChanges, {
  additionalProperties: false,
  default: {},
  expected: '1 to 64 characters of `A-Z a-z 0-9 _ -`',
  description: 'Plans by tier: changes to `free`, `pro`, `team`, `scale` and `enterprise`, and added tiers, 30 in all.'
})
export type Plans = Static<typeof Plans>
