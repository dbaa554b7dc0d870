/** Values that schemas accept: the smallest ones allowed by the keywords of the built-in schemas. */
import { isRecord } from '../../lib/json/plain-value.js'

const id = '00000000-0000-4000-8000-000000000000'
const texts = [
  'a',
  'notes:read',
  'ada@example.com',
  'https://example.com/',
  id,
  '2030-01-01T00:00:00.000Z',
  '2030-01-01',
  '123456',
  'text/plain',
  'AAAA-AAAA-AAAA',
  'a'.repeat(12),
  `lt_acme.${'a'.repeat(43)}`
]
const ofFormat: Readonly<Record<string, string>> = {
  uuid: id,
  email: 'ada@example.com',
  uri: 'https://example.com/',
  'date-time': '2030-01-01T00:00:00.000Z',
  date: '2030-01-01'
}

export function sampleOf (schema: unknown): unknown {
  if (!isRecord(schema)) return {}
  const { type, properties, required, enum: values, anyOf, oneOf, items, minItems = 0, minimum = 0, const: constant } = schema
  if (constant !== undefined) return constant
  if (Array.isArray(values)) return values[0]
  const [choice] = [anyOf ?? oneOf ?? []].flat()
  if (choice !== undefined) return sampleOf(choice)
  switch (type) {
    case 'string':
      return textOf(schema)
    case 'integer':
    case 'number':
      return minimum
    case 'boolean':
      return true
    case 'null':
      return null
    case 'array':
      return Array.from({ length: Number(minItems) }, () => sampleOf(items))
    case 'object': {
      const members = isRecord(properties) ? properties : {}
      const names = new Set([required ?? []].flat().map(String))
      // A body without required members may still need one.
      const [first] = Object.keys(members)
      if (names.size === 0 && first !== undefined && Number(schema['minProperties'] ?? 0) > 0) names.add(first)
      return Object.fromEntries([...names].map((name) => [name, sampleOf(members[name])]))
    }
    default:
      return {}
  }
}

function textOf ({ format, pattern, minLength = 0 }: Readonly<Record<string, unknown>>): string {
  const known = ofFormat[String(format)]
  if (known !== undefined) return known
  const found = texts.find((text) =>
    text.length >= Number(minLength) && (typeof pattern !== 'string' || new RegExp(pattern, 'u').test(text))
  )
  if (found === undefined) throw new Error(`no sample matches ${String(pattern)}`)
  return found
}
