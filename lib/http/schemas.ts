/** Bodies that several groups of endpoints share. */
import { Type } from 'typebox'
import { named } from '../validation/named-schema.js'

export const Success = named('Success', Type.Object({ success: Type.Boolean() }))

/** A request body without members. */
export const EmptyBody = named('EmptyBody', Type.Object({}, { additionalProperties: false }))
