/** Parts of a schema that it names itself, by `$id` or `$anchor`. */
import { isRecord } from '../json/plain-value.js'
import { pointerTo } from '../schema/faults.js'
import { schemaName } from './named-schema.js'

/** The members of a schema whose value maps names to schemas, and those whose value is data. */
export const schemaMaps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
export const dataMembers = new Set(['enum', 'const', 'default', 'example', 'examples', 'required'])

/** Pointers to parts by `<$id>#` and `<$id>#<$anchor>`. */
type Pointers = Map<string, string>

/**
 * A copy in which references to such parts are JSON Pointers from the schema, as are references within a part with an `$id`, which begin at
 * that part. The schema itself if it names no part.
 */
export function withPointers (schema: unknown): unknown {
  const pointers: Pointers = new Map()
  collect(schema, '', '', pointers)
  return pointers.size === 0 ? schema : rewritten(schema, '', pointers)
}

/** @param id the `$id` at which references begin */
function collect (schema: unknown, pointer: string, id: string, pointers: Pointers): void {
  if (Array.isArray(schema)) {
    for (const [index, item] of schema.entries()) collect(item, pointerTo(pointer, index), id, pointers)
  }
  if (!isOwn(schema)) return
  const within = idOf(schema) ?? id
  for (const name of [...within === id ? [] : [`${within}#`], ...anchorsOf(schema).map((anchor) => `${within}#${anchor}`)]) {
    // Other characters than those of URIs are escaped.
    if (!pointers.has(name)) pointers.set(name, encodeURI(pointer).replaceAll('#', '%23'))
  }
  for (const [key, value] of Object.entries(schema)) {
    if (dataMembers.has(key)) continue
    const place = pointerTo(pointer, key)
    if (schemaMaps.has(key) && isRecord(value)) {
      for (const [name, member] of Object.entries(value)) collect(member, pointerTo(place, name), within, pointers)
    } else collect(value, place, within, pointers)
  }
}

function rewritten (schema: unknown, id: string, pointers: Pointers): unknown {
  if (Array.isArray(schema)) return schema.map((item) => rewritten(item, id, pointers))
  if (!isOwn(schema)) return schema
  const within = idOf(schema) ?? id
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => {
    if (key === '$ref' && typeof value === 'string') return [key, pointed(value, within, pointers)]
    if (dataMembers.has(key)) return [key, value]
    if (!schemaMaps.has(key) || !isRecord(value)) return [key, rewritten(value, within, pointers)]
    return [key, Object.fromEntries(Object.entries(value).map(([name, member]) => [name, rewritten(member, within, pointers)]))]
  }))
}

/** References to other schemas stay. */
function pointed (reference: string, within: string, pointers: Pointers): string {
  const [id = '', fragment = ''] = reference.split('#')
  const base = id === '' ? within : id
  const isPointer = fragment === '' || fragment.startsWith('/')
  const found = pointers.get(isPointer ? `${base}#` : `${base}#${fragment}`)
  if (found === undefined) return reference
  return isPointer ? `#${found}${fragment}` : `#${found}`
}

/** Whether it is a schema of the app. Schemas that this package names are components, and name no parts. */
function isOwn (schema: unknown): schema is Record<string, unknown> {
  return isRecord(schema) && schemaName(schema) === undefined
}

function idOf ({ $id }: Readonly<Record<string, unknown>>): string | undefined {
  return typeof $id === 'string' && !$id.startsWith('#') ? $id.replace(/#$/, '') : undefined
}

/** In older drafts, an anchor is an `$id` with `#`. */
function anchorsOf ({ $id, $anchor }: Readonly<Record<string, unknown>>): string[] {
  return [
    ...typeof $id === 'string' && $id.startsWith('#') ? [$id.slice(1)] : [],
    ...typeof $anchor === 'string' ? [$anchor] : []
  ]
}
