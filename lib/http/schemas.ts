/** Schemas that several groups of endpoints share. */
import { type TSchema, Type } from 'typebox'
import { ClosedObject } from '../schema/annotations.js'
import { named } from '../validation/named-schema.js'

export const Success = named('Success', Type.Object({ success: Type.Boolean() }))

/** A request body without members. */
export const EmptyBody = named('EmptyBody', ClosedObject({}))

/** The parameters of a path with the id of a record. */
export const IdParams = Type.Object({ id: Type.String({ format: 'uuid' }) })

/** A time in a response. The handler returns a Date, and the serializer writes it. */
export function Time (description?: string) {
  return Type.Unsafe<Date>({ type: 'string', format: 'date-time', ...description !== undefined && { description } })
}

export function OrNull<Schema extends TSchema> (schema: Schema, description?: string) {
  return Type.Union([schema, Type.Null()], { ...description !== undefined && { description } })
}
