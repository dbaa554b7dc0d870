import t from 'tap'
import { read } from '../../../lib/document/reader.js'
import type { SchemaNode } from '../../../lib/schema/annotations.js'
import { FaultList, nearest } from '../../../lib/schema/faults.js'
import { Root } from '../../../lib/schema/root.js'
import { TenantDocument } from '../../../lib/tenant-document/schema.js'

/** An object of a document with a fixed list of members, and a document around a value of it. */
interface Place {
  readonly pointer: string
  readonly node: SchemaNode
  readonly around: (value: object) => unknown
}

type Definitions = Readonly<Record<string, SchemaNode>>

/** Finds every closed object of a schema; a definition that refers to itself is visited once. */
function * placesIn (
  written: SchemaNode,
  around: (value: unknown) => unknown = (value) => value,
  pointer = '',
  outer: Definitions = {},
  seen: ReadonlySet<SchemaNode> = new Set()
): Generator<Place> {
  const [node, definitions] = resolved(written, outer)
  if (seen.has(node)) return
  const inside = new Set([...seen, node])
  for (const branch of node.anyOf ?? []) yield * placesIn(branch, around, pointer, definitions, inside)
  if (node.items !== undefined) yield * placesIn(node.items, (value) => around([value]), `${pointer}/0`, definitions, inside)
  for (const [pattern, member] of Object.entries(node.patternProperties ?? {})) {
    const name = ['a', '/a'].find((each) => new RegExp(pattern, 'u').test(each))!
    yield * placesIn(member, (value) => around({ [name]: value }), `${pointer}/${name.replaceAll('/', '~1')}`, definitions, inside)
  }
  if (node.properties === undefined || node.additionalProperties !== false) return
  yield { pointer, node, around: (value) => around({ ...required(node), ...value }) }
  for (const [name, member] of Object.entries(node.properties)) {
    yield * placesIn(member, (value) => around({ ...required(node), [name]: value }), `${pointer}/${name}`, definitions, inside)
  }
}

function resolved (node: SchemaNode, outer: Definitions): [SchemaNode, Definitions] {
  const definitions = { ...outer, ...node.$defs }
  return node.$ref === undefined ? [node, definitions] : resolved(definitions[node.$ref]!, definitions)
}

/** The members that tell the branches of a union apart; their values may be faults. */
function required ({ properties = {}, required: names = [] }: SchemaNode): object {
  return Object.fromEntries(names.map((name) => [name, properties[name]?.const ?? 0]))
}

for (const [name, schema, settings] of [['the document', Root, true], ['the document of a tenant', TenantDocument, false]] as const) {
  t.test(`an unknown member of any object of ${name} is a fault with the nearest name`, async (t) => {
    let places = 0
    for (const { pointer, node, around } of placesIn(schema)) {
      const names = Object.keys(node.properties ?? {})
      const misspelt = `${names.at(-1) ?? 'name'}x`
      const faults = new FaultList()
      read(schema, around({ [misspelt]: 1 }), '', { faults, env: {}, settings })
      const fault = faults.faults.find((each) => each.pointer === `${pointer}/${misspelt}`)
      t.match(fault, { message: /^unknown member/, suggestion: nearest(misspelt, names) }, `${pointer}/${misspelt}`)
      t.equal(fault?.suggestion !== undefined, names.length > 0, pointer)
      places++
    }
    t.ok(places > 50, `${places} places`)
  })
}
