/** Schemas that several connectors share for their params. */
import { Type } from 'typebox'

export const Text = (description: string, maxLength = 2000) => Type.String({ minLength: 1, maxLength, description })
export const Optional = { Text: (description: string, maxLength = 2000) => Type.Optional(Text(description, maxLength)) }
export const Id = (description: string) => Type.String({ minLength: 1, maxLength: 255, description })
export const Flag = (description: string) => Type.Optional(Type.Boolean({ description }))

/** Templates of params that the service knows by the same names in snake case: `{ customer_id: '{{params.customerId}}' }`. */
export function inSnakeCase (...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), `{{params.${name}}}`]))
}

/** An amount in minor units of its currency, as cents. */
export const Amount = (description: string) => Type.Integer({ minimum: 0, maximum: 99_999_999, description })

/** Texts by name, which the service stores with a record. */
export const Metadata = Type.Optional(
  Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
    description: 'Values that the service stores with the record, by name.'
  })
)

/** A number in a query string, which may already be text. */
export const Count = (description: string, maximum: number) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum }), Type.String({ pattern: '^[1-9][0-9]{0,5}$' })], { description }))
