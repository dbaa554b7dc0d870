/** Writes docs/reference/configuration.md from the schema of the document: a table for each object in it. */
import type { SchemaNode } from '../lib/config/schema/annotations.js'
import { Root } from '../lib/config/schema/root.js'
import { renew } from './renew.js'

const introduction = `# The document

Every member that a tenantry document can have. This page is made from the document's schema by
\`scripts/generate-reference.ts\`; \`schema.json\` of the package holds the same for editors.

A document is JSON (comments and trailing commas are allowed) or a module whose default export is the document. All
that is wrong with it is reported at once, each fault with its JSON Pointer. A member that is not known is refused; so
is one that is **not in this version**, with what is missing. Templates, expressions and rules of a route are judged as
soon as its members are right; tables and columns that only the database has, when the server starts.

Settings: \`{{env.NAME}}\` stands for the environment's \`NAME\`, \`{{env.NAME || 20}}\` gives a default, and the older
\`\${NAME}\` reads as \`{{env.NAME}}\`. A \`.env\` beside the document counts where the environment has no such setting. A value
that is one template becomes the number or boolean that its member asks for. Settings can stand in every member; in those
marked *templates* the other sources (\`body\`, \`params\`, \`query\`, \`auth\`, \`tenant\`, ...) can too, and are read anew
for each request.
`

/** Objects that are described once, by the name that a reference or a heading gives them. */
interface Part {
  readonly title: string
  /** One object, or those that a union admits in each other's place. */
  readonly forms: readonly SchemaNode[]
  readonly description?: string | undefined
}

const definitions = new Map<string, SchemaNode>()
const parts: Part[] = []
const described = new Set<SchemaNode>()

// `supabase` is `postgres` under another name.
const { supabase, ...members } = Root.properties
parts.push({ title: '', forms: [Root] })
for (const [name, member] of Object.entries<SchemaNode>(members)) collect(name, member)
renew('docs/reference/configuration.md', `${introduction}\n${parts.map(section).join('\n')}`)

/** Finds the objects in a member, in the order of the document; each becomes a part. */
function collect (path: string, written: SchemaNode): void {
  for (const [name, definition] of Object.entries(written.$defs ?? {})) definitions.set(name, definition)
  const node = resolve(written)
  if (node.planned !== undefined || described.has(node)) return
  described.add(node)
  const forms = (node.anyOf ?? [node]).map(resolve).filter(({ properties = {} }) => Object.keys(properties).length > 0)
  if (forms.length > 0) parts.push({ title: path, forms, description: node.description ?? written.description })
  for (const form of node.anyOf?.map(resolve) ?? [node]) {
    for (const [name, member] of Object.entries(form.properties ?? {})) collect(`${path}.${name}`, member)
    for (const member of Object.values(form.patternProperties ?? {})) collect(`${path}.<name>`, member)
    if (form.items !== undefined) collect(`${path}[]`, form.items)
  }
}

function resolve (node: SchemaNode): SchemaNode {
  if (node.$ref === undefined) return node
  const target = definitions.get(node.$ref)
  if (target === undefined) throw new Error(`the schema refers to "${node.$ref}", which it does not define`)
  return resolve(target)
}

function section ({ title, forms, description }: Part): string {
  const [first] = forms
  const rows = forms.flatMap((form) => Object.entries(form.properties ?? {}).map(([name, member]) =>
    row(name, member, form.required?.includes(name) !== true ? undefined : form === first ? '**required**' : 'stands alone')))
  return [
    title === '' ? '## Members' : `## \`${title}\``,
    ...description === undefined ? [] : ['', description],
    '',
    '| Member | Type | Default | Meaning |',
    '|---|---|---|---|',
    ...rows,
    ''
  ].join('\n')
}

function row (name: string, member: SchemaNode, required: string | undefined): string {
  const { meaning, fallback } = splitDescription({ ...resolve(member), ...member })
  const cells = member.planned === undefined
    ? [typeOf(member), required ?? defaultOf(member) ?? fallback, meaning]
    : ['', '', `**Not in this version.** ${meaning}`]
  return `| \`${name}\` | ${cells.map(cell).join(' | ')} |`
}

/** The sentence on the default stands in a column of its own. */
function splitDescription ({ description = '' }: SchemaNode): { meaning: string, fallback: string } {
  const [, meaning = description, fallback = ''] = description.match(/^(.*?) ?Default: (.*)\.$/s) ?? []
  return { meaning, fallback }
}

function defaultOf ({ default: value }: SchemaNode): string | undefined {
  if (value === undefined) return undefined
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0 && !Array.isArray(value) ? 'its own defaults' : `\`${JSON.stringify(value)}\``
}

function typeOf (node: SchemaNode): string {
  const target = resolve(node)
  const type = target.anyOf === undefined ? single(target) : [...new Set(target.anyOf.filter(({ planned }) => planned === undefined).map((branch) => typeOf(branch)))].join(' or ')
  return takesTemplates(target) ? `${type}, *templates*` : type
}

function single (node: SchemaNode): string {
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``
  if (node.enum !== undefined) {
    return node.enum.map((value) => `\`${JSON.stringify(value)}\`${typeof value === 'string' && node.plannedValues?.[value] !== undefined ? ' (not in this version)' : ''}`).join(', ')
  }
  switch (node.type) {
    case 'array': return `array of ${node.items === undefined ? 'values' : typeOf(node.items)}`
    case 'object': {
      const [member] = Object.values(node.patternProperties ?? {})
      return member === undefined ? 'object' : `object of ${typeOf(member)} by name`
    }
    case undefined: return 'any'
    default: return [node.type, ...bounds(node)].join(', ')
  }
}

function bounds ({ minimum, maximum, exclusiveMinimum, minLength, maxLength, unit }: SchemaNode): string[] {
  const number = (value: number) => value.toLocaleString('en')
  return [
    unit,
    minimum !== undefined && maximum !== undefined ? `${number(minimum)} to ${number(maximum)}` : minimum !== undefined && `at least ${number(minimum)}`,
    minimum === undefined && exclusiveMinimum !== undefined && `more than ${number(exclusiveMinimum)}`,
    minimum === undefined && maximum !== undefined && `at most ${number(maximum)}`,
    minLength === 1 ? 'not empty' : minLength !== undefined && `at least ${number(minLength)} characters`,
    maxLength !== undefined && `at most ${number(maxLength)} characters`
  ].filter((bound) => typeof bound === 'string')
}

function takesTemplates ({ text, anyOf = [] }: SchemaNode): boolean {
  return text === 'request' && anyOf.length === 0
}

function cell (text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}
