/** Texts of a URL as the types of their fields: what `coerceTypes: 'array'` of ajv makes of them, where that is JSON. */
import { isInteger, numberIn } from '../json/exact-number.js'

/** The value that a text becomes; undefined where it is of none of the types, the first of which that takes it counts. */
export function coercedText (text: string, types: readonly unknown[]): unknown {
  for (const type of types) {
    const value = asType(text, type)
    if (value !== undefined) return value
  }
  return undefined
}

function asType (text: string, type: unknown): unknown {
  switch (type) {
    case 'string':
      return text
    case 'number':
      return numberIn(text)
    case 'integer': {
      const number = numberIn(text)
      return isInteger(number) ? number : undefined
    }
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : undefined
    case 'array':
      return [text]
    case 'null':
      return text === '' ? null : undefined
    default:
      return undefined
  }
}
