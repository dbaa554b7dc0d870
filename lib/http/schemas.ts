/** Bodies that endpoints of several groups have. */
import { Type } from 'typebox'
import { named } from '../validation/named-schema.js'

export const Success = named('Success', Type.Object({ success: Type.Boolean() }))

/** The body of a request that takes no members. */
export const EmptyBody = named('EmptyBody', Type.Object({}, { additionalProperties: false }))
