/** The values of texts in a URL that no column and no rule of the route gives a type. */
import type { CompiledValue } from '../expressions/types.js'

/** Whether the value is one template that reads the path, the query string or a header. */
export function isOfUrl ({ references, within }: CompiledValue): boolean {
  return within === undefined && references.length > 0 &&
    references.every(({ source }) => source === 'query' || source === 'params' || source === 'headers')
}

/** The items of a text with commas. A blank beside a comma belongs to no item; at an end of the text it belongs to the item. */
export function splitList (text: string): string[] {
  if (text === '') return []
  const items = text.split(',')
  const last = items.length - 1
  return items.map((item, index) => {
    const begun = index === 0 ? item : item.trimStart()
    return index === last ? begun : begun.trimEnd()
  })
}

const scalar = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d{1,3})?|true|false)$/i
const composite = /^\s*[{[]/

/**
 * The JSON values that a text of a URL can be, as JSON texts: `7` is a text and a number. A rule of the route that gives
 * the field a type leaves one of them. undefined for a text that begins as an object or an array and is no JSON.
 */
export function jsonTexts (value: string): readonly string[] | undefined {
  const text = JSON.stringify(value)
  // A number stays as it is written: a double may not hold it.
  if (scalar.test(value)) return [text, value.toLowerCase()]
  if (!composite.test(value)) return [text]
  try {
    JSON.parse(value)
    return [text, value]
  } catch {
    return undefined
  }
}
