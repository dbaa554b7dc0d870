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
        `Days for which the platform's own entries are kept; those of a tenant are as long as its plan says. Default: ${defaultRetentionDays}.`
    })
  )
}
