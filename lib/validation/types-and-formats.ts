/** The types and formats of JSON Schema, for checks that generate no code. */
import { fullFormats } from 'ajv-formats/dist/formats.js'
import { isInteger, isNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'

/** `name` is a type of JSON Schema. */
export function isOfType (value: unknown, name: unknown): boolean {
  switch (name) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isRecord(value)
    case 'integer':
      return isInteger(value)
    case 'number':
      return isNumber(value)
    case 'boolean':
      return typeof value === 'boolean'
    default:
      return typeof value === 'string'
  }
}

export function isOfTypes (value: unknown, type: unknown): boolean {
  return Array.isArray(type) ? type.some((name) => isOfType(value, name)) : isOfType(value, type)
}

const names = ['email', 'uuid', 'date-time', 'date', 'time', 'uri', 'ipv4', 'ipv6', 'hostname'] as const

/** The test of each format, in linear time. */
export const formatTests: ReadonlyMap<unknown, (text: string) => boolean> = new Map(names.map((name) => [name, testOf(fullFormats[name])]))

function testOf (format: unknown): (text: string) => boolean {
  if (format instanceof RegExp) return (text) => format.test(text)
  const { validate = format }: { validate?: unknown } = Object(format)
  if (validate instanceof RegExp) return (text) => validate.test(text)
  if (typeof validate !== 'function') throw new Error('the format has no check')
  return (text) => validate(text) === true
}
