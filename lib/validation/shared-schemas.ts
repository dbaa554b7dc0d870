/** References to the schemas that an app shares with `addSchema`. */
import { isRecord } from '../json/plain-value.js'
import { membersInFragment } from '../schema/faults.js'

/** The members of a schema, or schemas by `$id`. */
export type Members = Readonly<Record<string, unknown>>

/** A whole schema. References without an `$id` in it lead to it. */
interface WholeSchema {
  readonly schema: unknown
}

/** A schema, and the whole schema that contains it. */
export interface PlacedSchema<Whole extends WholeSchema> {
  readonly schema: Members
  readonly whole: Whole
}

type SharedOf<Whole extends WholeSchema> = (id: string) => Whole | undefined

export const maxReferences = 8 // that lead to references

/** The schema to which a reference leads; undefined if it leads nowhere. */
export function referredSchema<Whole extends WholeSchema> (
  reference: string,
  whole: Whole,
  sharedOf: SharedOf<Whole>
): PlacedSchema<Whole> | undefined {
  const [id = '', fragment = ''] = reference.split('#')
  const target = id === '' ? whole : sharedOf(id)
  const schema = membersInFragment(fragment).reduce<unknown>((node, name) => isRecord(node) ? node[name] : undefined, target?.schema)
  return target === undefined || !isRecord(schema) ? undefined : { schema, whole: target }
}

/** The schema behind references that lead to references. Empty if one leads nowhere. */
export function resolvedSchema<Whole extends WholeSchema> (schema: unknown, whole: Whole, sharedOf: SharedOf<Whole>): PlacedSchema<Whole> {
  let placed: PlacedSchema<Whole> = { schema: isRecord(schema) ? schema : {}, whole }
  for (let left = maxReferences; left > 0; left--) {
    const reference = placed.schema['$ref']
    if (typeof reference !== 'string') break
    placed = referredSchema(reference, placed.whole, sharedOf) ?? { schema: {}, whole }
  }
  return placed
}

/** The schema, and those of its fields and their items, in place of references to them. Deeper references stay. */
export function fieldsResolved (schema: object, shared: Members): Members {
  const sharedOf = (id: string): WholeSchema => ({ schema: shared[id] })
  const { schema: resolved, whole } = resolvedSchema(schema, { schema }, sharedOf)
  const { properties } = resolved
  if (!isRecord(properties)) return resolved
  const fieldOf = (given: unknown): Members => {
    const { schema: field, whole: wholeOfField } = resolvedSchema(given, whole, sharedOf)
    return isRecord(field['items']) ? { ...field, items: resolvedSchema(field['items'], wholeOfField, sharedOf).schema } : field
  }
  return { ...resolved, properties: Object.fromEntries(Object.entries(properties).map(([name, given]) => [name, fieldOf(given)])) }
}
