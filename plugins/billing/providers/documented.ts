/** Answers of a provider are read by what it documents: of what else comes nothing is believed. */
import { Type, type Static, type TSchema } from 'typebox'
import { lazyValidator } from '../../../lib/validation/validator.js'
import { ProviderFault } from './call.js'

/** An id, or a name of a kind, as the database and paths can have it: of visible ASCII characters. */
export const Id = (maxLength: number) => Type.String({ maxLength, pattern: '^[\\x21-\\x7e]+$' })

/** A time as RFC 3339 has it, of which `Date` reads everything but leap seconds: those are none. */
export const Time = Type.String({
  format: 'date-time',
  maxLength: 64,
  pattern: '^[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-5][0-9](?:\\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$'
})

/**
 * Makes what reads a value that is documented so; members beyond the schema's are left alone. Throws a ProviderFault that names
 * the first thing that is wrong.
 */
export function documented<S extends TSchema> (name: string, schema: S): (value: unknown) => Static<S> {
  const validate = lazyValidator(schema, 'body')
  const errorsOf = (value: unknown): string | null => {
    const errors = validate(value)
    return errors === null ? null : `${errors[0]?.instancePath ?? ''} ${errors[0]?.message ?? ''}`
  }
  return (value) => {
    if (isOf<Static<S>>(value, errorsOf)) return value
    throw new ProviderFault('unreadable', { message: `what came as ${name} is none: ${errorsOf(value) ?? ''}` })
  }
}

function isOf<T> (value: unknown, errorsOf: (value: unknown) => string | null): value is T {
  return errorsOf(value) === null
}
