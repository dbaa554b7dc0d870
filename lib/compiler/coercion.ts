/** Texts of a URL as the types of their fields: what `coerceTypes: 'array'` of ajv makes of them, where that is JSON. */

/** A number as JSON writes it: no blank, no `0x10`. */
const decimal = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i

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
    case 'string': return text
    case 'number': return numberOf(text)
    case 'integer': {
      const number = numberOf(text)
      return Number.isInteger(number) ? number : undefined
    }
    case 'boolean': return text === 'true' ? true : text === 'false' ? false : undefined
    case 'array': return [text]
    case 'null': return text === '' ? null : undefined
    default: return undefined
  }
}

/** Not `1e999` either, which no JSON and no column can hold. */
function numberOf (text: string): number | undefined {
  const number = decimal.test(text) ? Number(text) : NaN
  return Number.isFinite(number) ? number : undefined
}
