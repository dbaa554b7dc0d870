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
        `The number of days for which the platform's entries are kept. The plan of a tenant sets the time for its entries. Default: ${defaultRetentionDays}.`
    })
  )
}
