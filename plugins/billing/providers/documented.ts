/** Answers of a provider are read by what it documents: of what else comes nothing is believed. */
import type { Static, TSchema } from 'typebox'
import { compileValidator } from '../../../lib/validation.js'
import { ProviderFault } from './call.js'

/** Makes what reads a value that is documented so; members beyond the schema's are left alone. Throws a ProviderFault that names the first thing that is wrong. */
export function documented<S extends TSchema> (name: string, schema: S): (value: unknown) => Static<S> {
  const validate = compileValidator(schema, 'body')
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
