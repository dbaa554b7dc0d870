/** The options of the plugin audit. */
import { Type } from 'typebox'

export const defaultRetentionDays = 365
export const maxRetentionDays = 36_500

export const auditOptions = {
  retentionDays: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxRetentionDays,
      description:
        `The days that the platform's own entries are kept; a tenant's plan sets those of its entries. Default: ${defaultRetentionDays}.`
    })
  )
}
