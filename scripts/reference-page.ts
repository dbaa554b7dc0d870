/** A page of the reference, from the schema of a document: a table for each object. */
import type { SchemaNode } from '../lib/schema/annotations.js'

/** Objects that are described once, under the name of a reference or a heading. */
interface Part {
  readonly title: string
  /** One object, or the alternatives of a union. */
  readonly forms: readonly SchemaNode[]
  readonly description?: string | undefined
}

/** The sections of the page; members in `omitted` only have a row. */
export function describe (root: SchemaNode, omitted: readonly string[] = []): string {
  const page = new Page()
  page.parts.push({ title: '', forms: [root] })
  for (const [name, member] of Object.entries(root.properties ?? {})) if (!omitted.includes(name)) page.collect(name, member)
  return page.parts.map((part) => page.section(part)).join('\n')
}

class Page {
  readonly parts: Part[] = []
  readonly #definitions = new Map<string, SchemaNode>()
  readonly #described = new Set<SchemaNode>()

  /** Finds the objects in a member, in the order of the document; each becomes a part. */
  collect (path: string, written: SchemaNode): void {
    for (const [name, definition] of Object.entries(written.$defs ?? {})) this.#definitions.set(name, definition)
    const node = this.resolve(written)
    if (this.#described.has(node)) return
    this.#described.add(node)
    const forms = (node.anyOf ?? [node]).map((form) => this.resolve(form)).filter(({ properties = {} }) =>
      Object.keys(properties).length > 0
    )
    if (forms.length > 0) this.parts.push({ title: path, forms, description: node.description ?? written.description })
    for (const form of node.anyOf?.map((form) => this.resolve(form)) ?? [node]) {
      for (const [name, member] of Object.entries(form.properties ?? {})) this.collect(`${path}.${name}`, member)
      for (const member of Object.values(form.patternProperties ?? {})) this.collect(`${path}.<name>`, member)
      if (form.items !== undefined) this.collect(`${path}[]`, form.items)
    }
  }

  resolve (node: SchemaNode): SchemaNode {
    if (node.$ref === undefined) return node
    const target = this.#definitions.get(node.$ref)
    if (target === undefined) throw new Error(`the schema refers to "${node.$ref}", which it does not define`)
    return this.resolve(target)
  }

  section ({ title, forms, description }: Part): string {
    const [first] = forms
    const rows = forms.flatMap((form) =>
      Object.entries(form.properties ?? {}).map(([name, member]) =>
        this.row(name, member, form.required?.includes(name) !== true ? undefined : form === first ? '**required**' : 'stands alone')
      )
    )
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

  row (name: string, member: SchemaNode, required: string | undefined): string {
    const { meaning, fallback } = splitDescription({ ...this.resolve(member), ...member })
    const cells = [this.typeOf(member), required ?? defaultOf(member) ?? fallback, meaning]
    return `| \`${name}\` | ${cells.map(cell).join(' | ')} |`
  }

  typeOf (node: SchemaNode): string {
    const target = this.resolve(node)
    const type = target.anyOf === undefined
      ? this.single(target)
      : [...new Set(target.anyOf.map((branch) => this.typeOf(branch)))].join(' or ')
    return takesTemplates(target) ? `${type}, *templates*` : type
  }

  single (node: SchemaNode): string {
    if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``
    if (node.enum !== undefined) {
      return node.enum.map((value) => `\`${JSON.stringify(value)}\``).join(', ')
    }
    switch (node.type) {
      case 'array':
        return `array of ${node.maxItems === undefined ? '' : `at most ${node.maxItems.toLocaleString('en')} × `}${
          node.items === undefined ? 'values' : this.typeOf(node.items)
        }`
      case 'object': {
        const [member] = Object.values(node.patternProperties ?? {})
        return member === undefined ? 'object' : `object of ${this.typeOf(member)} by name`
      }
      case undefined:
        return 'any'
      default:
        return [node.type, ...bounds(node)].join(', ')
    }
  }
}

/** The default has its own column. */
function splitDescription ({ description = '' }: SchemaNode): { meaning: string, fallback: string } {
  const [, meaning = description, fallback = ''] = description.match(/^(.*?) ?Default: (.*)\.$/s) ?? []
  return { meaning, fallback }
}

function defaultOf ({ default: value }: SchemaNode): string | undefined {
  if (value === undefined) return undefined
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0 && !Array.isArray(value)
    ? 'its own defaults'
    : `\`${JSON.stringify(value)}\``
}

function bounds ({ minimum, maximum, exclusiveMinimum, minLength, maxLength, unit }: SchemaNode): string[] {
  const number = (value: number) => value.toLocaleString('en')
  return [
    unit,
    minimum !== undefined && maximum !== undefined
      ? `${number(minimum)} to ${number(maximum)}`
      : minimum !== undefined && `at least ${number(minimum)}`,
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
