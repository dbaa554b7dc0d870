/** The schemas that a document lists under `components`, and that its operations refer to. */
import type { JsonSchema } from '../../lib/expressions/types.js'
import { errorComponents } from '../../lib/http/error-schemas.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { propertiesOf, requiredOf } from '../../lib/queries/schema-members.js'
import { membersInFragment } from '../../lib/schema/faults.js'
import { withPointers } from '../../lib/validation/named-parts.js'
import { schemaName } from '../../lib/validation/named-schema.js'
import { maxReferences, type PlacedSchema, referredSchema, resolvedSchema } from '../../lib/validation/shared-schemas.js'

/** A schema that the app shares by `$id`, or a part of a tool or of an operation. */
interface SharedSchema {
  /** The name of its component. Empty for a part of an operation until a reference leads to the component. */
  name: string
  readonly schema: unknown
}

interface Component {
  readonly name: string
  /** Equal for schemas that differ only in the order of their members. Undefined for shared schemas, which no other replaces. */
  readonly content: string | undefined
  text: string
}

/** A field of a part of a request. */
export interface Field {
  readonly required: boolean
  readonly description: string | undefined
  /** Whether its value has members. */
  readonly isObject: boolean
  /** Writes its schema, without the description. */
  write(): unknown
}

export interface Components {
  /** Writes a schema, with references in place of named schemas in it. */
  write(schema: unknown): unknown
  /** Writes a part of an operation. References within it lead to a component that is a copy of the part. */
  writeWhole(schema: unknown): unknown
  /** Writes a part of a tool. If it is a reference, the schema behind it is written. References to `#` lead to the component `name`. */
  writePart(name: string, schema: unknown): unknown
  /** The fields of a part of a request by name, with those behind its reference. */
  fieldsOf(part: unknown): ReadonlyMap<string, Field>
  /** The reference to the component of a named schema; undefined for others. */
  referenceToNamed(schema: JsonSchema): string | undefined
  /** `Article#/properties/id` -> `#/components/schemas/Article/properties/id`, for shared schemas. */
  referenceToShared(reference: string): string
  find(name: string): Component | undefined
  /** The members of `schemas`, those of the base first. */
  text(): string
  /** Without those of the base. */
  names(): string[]
  /** Characters of the components, without those of the base. */
  readonly characters: number
  /** Components, without those of the base. */
  readonly count: number
  /** Drops the components after the first `count`. */
  truncate(count: number): void
}

export interface ComponentsOptions {
  readonly shared: ReadonlyMap<string, SharedSchema>
  readonly write: (schema: unknown, components: Components) => unknown
  /** Names of other components of the document. */
  readonly taken: ReadonlySet<string>
  /** The beginning of references. Default: `#/components/schemas/`. */
  readonly prefix?: string
  readonly base?: Components
}

/** Members that set no rules for a value. */
const withoutRules = new Set(['$id', '$schema', '$anchor', '$comment', '$defs', 'definitions'])

/** Names the components of shared schemas. */
export function sharedSchemas (schemas: JsonSchema, taken: ReadonlySet<string>): Map<string, SharedSchema> {
  const names = new Set(taken)
  return new Map(
    Object.entries(schemas).map(([id, schema]) => {
      const wanted = errorComponents.get(id) ?? componentName(id)
      let name = wanted
      for (let number = 2; names.has(name); number++) name = `${wanted}${number}`
      names.add(name)
      return [id, { name, schema }]
    })
  )
}

export function createComponents (
  { shared, write, taken, prefix = '#/components/schemas/', base }: ComponentsOptions
): Components {
  const added: Component[] = []
  const byName = new Map<string, Component>()
  const bySchema = new WeakMap<object, Component>()
  const sharedById = new Map<string, SharedSchema>()
  const reserved = new Set([...taken, ...Array.from(shared.values(), ({ name }) => name)])
  let characters = 0
  /** The schema that is being written, to which references without an `$id` lead. */
  let root: SharedSchema | undefined

  const find = (name: string): Component | undefined => byName.get(name) ?? base?.find(name)

  function sharedOf (id: string): SharedSchema | undefined {
    const known = sharedById.get(id)
    const given = shared.get(id)
    if (known !== undefined || given === undefined) return known
    const whole = { name: given.name, schema: withPointers(given.schema) }
    sharedById.set(id, whole)
    return whole
  }

  /** A part may also be a copy of a shared schema. */
  function wholeOf (name: string, part: unknown): SharedSchema {
    const id = isRecord(part) ? part['$id'] : undefined
    const known = typeof id === 'string' ? sharedOf(id) : undefined
    return known ?? { name, schema: withPointers(part) }
  }

  function add (component: Component): Component {
    added.push(component)
    byName.set(component.name, component)
    characters += component.text.length
    return component
  }

  /** The component with this name and content. A number after the name distinguishes other content. */
  function componentOf (wanted: string, copy: unknown, text = JSON.stringify(copy)): Component {
    const content = JSON.stringify(sorted(copy))
    for (let number = 1; ; number++) {
      const name = number === 1 ? wanted : `${wanted}${number}`
      if (reserved.has(name)) continue
      const found = find(name)
      if (found === undefined) return add({ name, content, text })
      if (found.content === content) return found
    }
  }

  function written (schema: unknown, within: SharedSchema): unknown {
    const outer = root
    root = within
    const copy = components.write(schema)
    root = outer
    return copy
  }

  /** Writes a component after it is added, since it may refer to itself. */
  function fill (component: Component, whole: SharedSchema): void {
    component.text = JSON.stringify(written(whole.schema, whole))
    characters += component.text.length
  }

  function expanded (schema: unknown, within: SharedSchema, left: number): unknown {
    const { $ref: reference, title, description, ...others } = isRecord(schema) ? schema : {}
    // Beside other rules, a reference stays: the schema has the rules of both.
    const hasRules = Object.keys(others).some((name) => !withoutRules.has(name))
    if (typeof reference !== 'string' || left === 0 || hasRules) return written(schema, within)
    const found = referredSchema(reference, within, sharedOf)
    if (found === undefined) return written(schema, within)
    const copy = { ...found.schema, ...title !== undefined && { title }, ...description !== undefined && { description } }
    return expanded(copy, found.whole, left - 1)
  }

  /** Names the component of a part of an operation, and adds it. Equal parts share one. */
  function addWhole (whole: SharedSchema): void {
    const before = added.length
    const component = componentOf(nameFor(whole.schema), whole.schema, '')
    whole.name = component.name
    if (added.length > before) fill(component, whole)
  }

  function fieldsIn ({ schema, whole }: PlacedSchema<SharedSchema>, required: readonly string[]): Array<[name: string, Field]> {
    return Object.entries(propertiesOf(schema)).map(([name, given]) => {
      const { schema: resolved } = resolvedSchema(given, whole, sharedOf)
      const { description = resolved['description'], ...rest } = isRecord(given) ? given : {}
      return [name, {
        required: required.includes(name),
        description: typeof description === 'string' ? description : undefined,
        isObject: resolved['type'] === 'object',
        write: () => written(rest, whole)
      }]
    })
  }

  const components: Components = {
    find,
    write: (schema) => write(schema, components),
    writeWhole (schema) {
      const reference = isRecord(schema) ? components.referenceToNamed(schema) : undefined
      if (reference !== undefined) return { $ref: reference }
      const whole = wholeOf('', schema)
      return written(whole.schema, whole)
    },
    writePart (name, schema) {
      const whole = wholeOf(name, schema)
      return expanded(whole.schema, whole, maxReferences)
    },
    fieldsOf (part) {
      const whole = wholeOf('', part)
      const own = { schema: isRecord(whole.schema) ? whole.schema : {}, whole }
      const found = resolvedSchema(whole.schema, whole, sharedOf)
      const required = [...requiredOf(part), ...requiredOf(found.schema)]
      return new Map([...fieldsIn(found, required), ...fieldsIn(own, required)])
    },
    referenceToNamed (schema) {
      const wanted = schemaName(schema)
      if (wanted === undefined) return undefined
      const known = bySchema.get(schema)
      if (known !== undefined && find(known.name) === known) return prefix + known.name
      const component = componentOf(wanted, components.write(schema))
      bySchema.set(schema, component)
      return prefix + component.name
    },
    referenceToShared (reference) {
      const [id = '', fragment = ''] = reference.split('#')
      const known = id === '' ? root : sharedOf(id)
      if (known === undefined) return reference
      if (known.name === '') {
        if (referredSchema(reference, known, sharedOf) === undefined) return reference
        addWhole(known)
      } else if (find(known.name) === undefined) {
        fill(add({ name: known.name, content: undefined, text: '' }), known)
      }
      return prefix + known.name + fragment
    },
    text () {
      const own = added.map(({ name, text }) => `${JSON.stringify(name)}:${text}`).join(',')
      const before = base?.text() ?? ''
      return before === '' || own === '' ? before + own : `${before},${own}`
    },
    names: () => [...byName.keys()],
    get characters () {
      return characters
    },
    get count () {
      return added.length
    },
    truncate (count) {
      for (const { name, text } of added.splice(count)) {
        byName.delete(name)
        characters -= text.length
      }
    }
  }
  return components
}

/** The name of a part that no one named. */
function nameFor (schema: unknown): string {
  const { $id, title, $ref } = isRecord(schema) ? schema : {}
  const wanted = [$id, title, typeof $ref === 'string' ? membersInFragment($ref).at(-1) : undefined]
  const [name = 'Schema'] = wanted.filter((text) => typeof text === 'string').map(componentName).filter((text) => /\w/.test(text))
  return name
}

/** With the characters that OpenAPI allows. */
function componentName (text: string): string {
  return text.replace(/[^\w.-]+/g, '_')
}

function sorted (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([left], [right]) => left < right ? -1 : 1)
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]))
}
