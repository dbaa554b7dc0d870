/** Schemas that several connectors share for their params. */
import { Type } from 'typebox'
import { Optional as OptionalOf } from '../../schema/annotations.js'

export const Text = (description: string, maxLength = 2000) => Type.String({ minLength: 1, maxLength, description })
export const Id = (description: string) => Text(description, 255)
export const Optional = {
  ...OptionalOf,
  Text: (description: string, maxLength = 2000) => Type.Optional(Text(description, maxLength)),
  Id: (description: string) => Type.Optional(Id(description))
}
/** The value of a member that the service takes as text. */
export const Scalar = Type.Union([Type.String(), Type.Number(), Type.Boolean()])

/** Templates of params that the service knows by the same names in snake case: `{ customer_id: '{{params.customerId}}' }`. */
export function inSnakeCase (...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), `{{params.${name}}}`]))
}

/** An amount in minor units of its currency, as cents. */
export const Amount = (description: string) => Type.Integer({ minimum: 0, maximum: 99_999_999, description })

/** Texts by name, which the service stores with a record. */
export const Metadata = Optional.Map('Values that the service stores with the record, by name.', Scalar)

/** A number in a query string, which may already be text. */
export const Count = (description: string, maximum: number) =>
  Optional.Union(description, [Type.Integer({ minimum: 1, maximum }), Type.String({ pattern: '^[1-9][0-9]{0,5}$' })])
