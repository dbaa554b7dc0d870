/** Checks responses of a provider against its documentation; other members are not used. */
import { Type, type Static, type TSchema } from 'typebox'
import { lazyValidator } from '../../../lib/validation/validator.js'
import { ProviderFault } from './call.js'

/** An id, or the name of a kind, that fits the database and paths: visible ASCII characters. */
export const Id = (maxLength: number) => Type.String({ maxLength, pattern: '^[\\x21-\\x7e]+$' })

/** A time of RFC 3339. `Date` parses all of them except leap seconds, which are refused. */
export const Time = Type.String({
  format: 'date-time',
  maxLength: 64,
  pattern: '^[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-5][0-9](?:\\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$'
})

/** Creates the reader of a documented value; further members are ignored. Throws a ProviderFault that names the first fault. */
export function documented<S extends TSchema> (name: string, schema: S): (value: unknown) => Static<S> {
  const validate = lazyValidator(schema, 'body')
  const errorsOf = (value: unknown): string | null => {
    const errors = validate(value)
    return errors === null ? null : `${errors[0]?.instancePath ?? ''} ${errors[0]?.message ?? ''}`
  }
  return (value) => {
    if (isOf<Static<S>>(value, errorsOf)) return value
    throw new ProviderFault('unreadable', { message: `the response is not ${name}: ${errorsOf(value) ?? ''}` })
  }
}

function isOf<T> (value: unknown, errorsOf: (value: unknown) => string | null): value is T {
  return errorsOf(value) === null
}
