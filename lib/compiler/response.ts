/** Compiles the body of a route's response: either a schema that filters the result, or a mapping. */
import type { CompiledResponse, JsonSchema } from '../expressions/types.js'
import type { TemplateContext } from '../expressions/reference.js'
import { nearest, pointerTo, type FaultList } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import type { ResultForm } from '../expressions/types.js'
import { recordsOf } from '../expressions/result.js'
import { compileMapping } from './mapping.js'
import { compileWriter, isResponseSchema, writeItems, type Writer } from './response-schema.js'
import { compileValue } from '../expressions/template.js'
import { stringifyJson } from '../json/stringify.js'

/**
 * Compiles `response`. A schema has `type` with `properties` or `items` and describes the whole response, for example `{type: 'object',
 * properties: {data: {...}, pagination: {...}}}` for a list. A schema of an array or a single record applies to each item of a list's
 * `data`, and the list keeps its envelope. Any other value is a mapping that can read `results`. Returns null after faults.
 */
export function compileResponse (response: unknown, pointer: string, context: TemplateContext): CompiledResponse | null {
  const { faults } = context
  const before = faults.faults.length
  const within: TemplateContext = { ...context, secretsRefusedIn: 'a response' }
  if (isResponseSchema(response)) {
    refuseSecrets(response, pointer, faults, 'a response')
    const write = compileWriter(response, pointer, faults)
    if (faults.faults.length > before) return null
    return Object.freeze({ kind: 'schema', schema: response, serialize: serializer(response, write) })
  }
  const meant = nearSchema(response)
  if (meant !== undefined) faults.add(`${pointer}/type`, 'a schema must have the JSON `type` that it describes', meant)
  const value = compileValue(response, pointer, within)
  if (faults.faults.length > before) return null
  return Object.freeze({ kind: 'mapping', value, serialize: compileMapping(response, within) })
}

/** Adds a fault for each string that names a secret. For values that leave the server unchanged, such as a description. */
export function refuseSecrets (value: unknown, pointer: string, faults: FaultList, where: string): void {
  if (typeof value === 'string') {
    if (/\{\{[^}]*\bsecret[:.]/.test(value)) faults.add(pointer, `a secret cannot be used in ${where}`)
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) refuseSecrets(item, pointerTo(pointer, name), faults, where)
  }
}

/** The type that `{type: 'objekt', properties: {...}}` probably means. A mapping may well have other types. */
function nearSchema (response: unknown): string | undefined {
  if (
    !isRecord(response) || typeof response['type'] !== 'string' || !(isRecord(response['properties']) || isRecord(response['items']))
  ) { return undefined }
  return nearest(response['type'], ['object', 'array'])
}

function serializer (schema: JsonSchema, write: Writer): (result: unknown, form: ResultForm) => string {
  const describesEnvelope = isRecord(schema['properties']) && Object.hasOwn(schema['properties'], 'data')
  if (describesEnvelope) return write
  return (result, form) => {
    if (form !== 'wrapped' || !isRecord(result)) return write(result)
    const data = `{"data":${writeItems(recordsOf(result, form) ?? [], write)}`
    return result['pagination'] === undefined ? `${data}}` : `${data},"pagination":${stringifyJson(result['pagination'])}}`
  }
}
