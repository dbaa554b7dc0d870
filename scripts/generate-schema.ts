/**
 * Writes schema.json, the JSON Schema (draft-07, which all editors support) of the document, for `$schema`. It admits all documents
 * that pass the structural check: settings may replace values, and unsupported features are refused.
 */
import type { SchemaNode } from '../lib/schema/annotations.js'
import { Root } from '../lib/schema/root.js'
import { renew } from './renew.js'

type Published = Readonly<Record<string, unknown>>

const definitions: Record<string, Published> = {
  Setting: {
    description: 'A setting of the environment: `{{env.NAME}}`, or with a default `{{env.NAME || 20}}`.',
    type: 'string',
    pattern: '\\{\\{\\s*env\\.|\\$\\{[A-Za-z_]'
  }
}

const schema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: 'tenantry document',
  ...publish(Root)
}
renew('schema.json', `${JSON.stringify({ ...schema, definitions }, null, 2)}\n`)

function publish (node: SchemaNode): Published {
  for (const [name, definition] of Object.entries(node.$defs ?? {})) {
    if (definitions[name] !== undefined) continue
    definitions[name] = {} // claimed, since a definition may refer to itself
    definitions[name] = publish(definition)
  }
  const description = describe(node)
  if (node.$ref !== undefined) {
    const reference = { $ref: `#/definitions/${node.$ref}` }
    // Draft-07 ignores all keywords beside a $ref.
    return node.description === undefined ? reference : { ...description, allOf: [reference] }
  }
  const branches = node.anyOf === undefined ? [constraints(node)] : node.anyOf.map(branch)
  const admitted = (node.anyOf ?? [node]).some(takesSetting) ? [...branches, { $ref: '#/definitions/Setting' }] : branches
  const [only] = admitted
  const form = admitted.length === 1 ? only : { anyOf: admitted }
  return { ...description, ...form, ...withDefault(node) }
}

/** One form of a union; the union states once that a setting may replace it. */
function branch (node: SchemaNode): Published {
  return node.$ref !== undefined || node.anyOf !== undefined ? publish(node) : { ...describe(node), ...constraints(node) }
}

/** The keywords that a validator uses. */
function constraints (node: SchemaNode): Published {
  const {
    type,
    minimum,
    maximum,
    exclusiveMinimum,
    minLength,
    maxLength,
    pattern,
    minItems,
    maxItems,
    uniqueItems,
    minProperties,
    additionalProperties,
    required
  } = node
  return defined({
    type,
    const: node.const,
    enum: node.enum,
    minimum,
    maximum,
    exclusiveMinimum,
    minLength,
    maxLength,
    pattern,
    minItems,
    maxItems,
    uniqueItems,
    minProperties,
    required,
    items: node.items && publish(node.items),
    properties: node.properties && publishAll(node.properties),
    patternProperties: node.patternProperties && publishAll(node.patternProperties),
    additionalProperties: additionalProperties ?? (node.patternProperties === undefined ? undefined : false)
  })
}

function publishAll (members: Readonly<Record<string, SchemaNode>>): Published {
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, publish(member)]))
}

/** Settings may also replace values that are not strings, and strings with bounds. */
function takesSetting (node: SchemaNode): boolean {
  if (node.text !== undefined && node.text !== 'environment') return false
  if (node.enum !== undefined || node.const !== undefined) return true
  if (node.type === 'string') return node.pattern !== undefined || node.minLength !== undefined || node.maxLength !== undefined
  return node.type === 'integer' || node.type === 'number' || node.type === 'boolean'
}

function describe ({ description, unit }: SchemaNode): Published {
  const parts = [
    description,
    unit === undefined ? undefined : `Unit: ${unit}.`
  ].filter((part) => part !== undefined)
  return parts.length === 0 ? {} : { description: parts.join(' ') }
}

function withDefault (node: SchemaNode): Published {
  return node.default === undefined ? {} : { default: node.default }
}

function defined (members: Published): Published {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}
