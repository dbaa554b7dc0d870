/** Templates in configuration values, compiled to closures. */
import { ExactNumber } from '../json/exact-number.js'
import { stringifyJson } from '../json/stringify.js'
import { pointerTo } from '../schema/faults.js'
import { absenceOf } from './declared-fields.js'
import { missingSetting, setting } from './environment.js'
import { compileReader, isReplaceable, type Reader, resolvePath, type TemplateContext } from './reference.js'
import { hasTemplate, type LiteralNode, parseOrFault, parseTemplate, type PathNode, type TemplateNode } from './template-parser.js'
import type { CompiledValue, Reference, Scope } from './types.js'

export type { TemplateContext } from './reference.js'

const maxTemplates = 1000 // in one value
const maxDepth = 32 // nested objects and arrays

/** A compiled part: a constant, or a closure. */
type Part = { readonly constant: true, readonly value: unknown } | { readonly constant: false, readonly read: Reader }

interface Compilation {
  readonly context: TemplateContext
  /** By source and path. */
  readonly references: Map<string, Reference>
  readonly readers: Reader[]
  templates: number
}

/**
 * Compiles any JSON value with templates in it. A value that is one template keeps its type. Inside a longer string it is text: empty for
 * missing values and null, JSON for objects. Members without a value are left out of objects and are null in arrays. Faults go to the
 * context's list, and the result is undefined. A template's value is not evaluated as a template again.
 */
export function compileValue (value: unknown, pointer: string, context: TemplateContext): CompiledValue {
  const compilation: Compilation = { context, references: new Map(), readers: [], templates: 0 }
  const part = compilePart(value, pointer, compilation, 0)
  reportExcess(pointer, compilation)
  return finish(part, [...compilation.references.values()], compilation.readers)
}

/** Compiles a text to a reader for each template and for each text between, for callers that keep their values apart. */
export function compilePieces (text: string, pointer: string, context: TemplateContext): readonly Reader[] {
  const compilation: Compilation = { context, references: new Map(), readers: [], templates: 0 }
  const parts = compileSegments(text, pointer, compilation)
  reportExcess(pointer, compilation)
  return parts.map(readerOf)
}

/** Text of a value inside a longer string. */
export function toText (value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value
    case 'undefined':
      return ''
    case 'object':
      if (value === null) return ''
      if (value instanceof Date) return value.toISOString()
      return value instanceof ExactNumber ? String(value) : stringifyJson(value)
    default:
      return String(value)
  }
}

function reportExcess (pointer: string, { templates, context }: Compilation): void {
  if (templates > maxTemplates) context.faults.add(pointer, `a value can have at most ${maxTemplates} templates, but this one has ${templates}`)
}

const nothing: Part = { constant: true, value: undefined }

function finish (part: Part, references: readonly Reference[], readers: readonly Reader[]): CompiledValue {
  if (!part.constant) {
    const isTemplate = readers[0] === part.read
    return Object.freeze({
      constant: false,
      references: Object.freeze(references),
      evaluate: part.read,
      ...!isTemplate && { within: Object.freeze(readers) }
    })
  }
  const { value } = part
  return Object.freeze({ constant: true, references: Object.freeze(references), evaluate: () => value })
}

function compilePart (value: unknown, pointer: string, compilation: Compilation, depth: number): Part {
  const { faults } = compilation.context
  switch (typeof value) {
    case 'string':
      return compileText(value, pointer, compilation)
    case 'number':
    case 'boolean':
    case 'bigint':
    case 'undefined':
      return { constant: true, value }
    case 'object':
      break
    default:
      faults.add(pointer, `a ${typeof value} is not a JSON value`)
      return nothing
  }
  if (value === null || value instanceof ExactNumber) return { constant: true, value }
  if (depth === maxDepth) {
    faults.add(pointer, `objects and arrays can be nested at most ${maxDepth} levels deep`)
    return nothing
  }
  if (Array.isArray(value)) return arrayOf(value.map((item, index) => compilePart(item, pointerTo(pointer, index), compilation, depth + 1)))
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    faults.add(pointer, 'only plain objects are JSON values')
    return nothing
  }
  const members: [string, Part][] = []
  for (const [name, item] of Object.entries(value)) {
    const at = pointerTo(pointer, name)
    if (name === '__proto__') faults.add(at, 'a member cannot have the name "__proto__"')
    else if (name.includes('{{')) faults.add(at, 'the name of a member cannot be a template')
    else members.push([name, compilePart(item, at, compilation, depth + 1)])
  }
  return objectOf(members)
}

function arrayOf (items: readonly Part[]): Part {
  if (items.every((item) => item.constant)) return { constant: true, value: Object.freeze(items.map((item) => item.value ?? null)) }
  const readers = items.map(readerOf)
  return { constant: false, read: (scope) => readers.map((read) => read(scope) ?? null) }
}

function objectOf (members: readonly (readonly [string, Part])[]): Part {
  const present = members.filter(([, part]) => !part.constant || part.value !== undefined)
  const constants: Record<string, unknown> = {}
  for (const [name, part] of present) if (part.constant) constants[name] = part.value
  if (present.every(([, part]) => part.constant)) return { constant: true, value: Object.freeze(constants) }

  const names = present.map(([name]) => name)
  const readers = present.map(([, part]) => readerOf(part))
  return {
    constant: false,
    read: (scope) => {
      const result: Record<string, unknown> = {}
      for (let index = 0; index < names.length; index++) {
        const value = readers[index]!(scope)
        if (value !== undefined) result[names[index]!] = value
      }
      return result
    }
  }
}

function readerOf (part: Part): Reader {
  if (!part.constant) return part.read
  const { value } = part
  return () => value
}

function compileText (text: string, pointer: string, compilation: Compilation): Part {
  const parts = compileSegments(text, pointer, compilation)
  const [only = nothing] = parts
  return parts.length > 1 ? textOf(parts) : only
}

/** A part for each template and for each text between; empty after a fault. */
function compileSegments (text: string, pointer: string, compilation: Compilation): readonly Part[] {
  if (!hasTemplate(text)) return [{ constant: true, value: text }]
  const segments = parseOrFault(() => parseTemplate(text), pointer, compilation.context.faults)
  if (segments === undefined) return []
  compilation.templates += segments.filter((segment) => typeof segment !== 'string').length
  // Beyond the bound nothing more is compiled; compileValue reports it once.
  if (compilation.templates > maxTemplates) return []
  return segments.map((segment) =>
    typeof segment === 'string' ? { constant: true, value: segment } : compileTemplateNode(segment, pointer, compilation)
  )
}

function textOf (parts: readonly Part[]): Part {
  const folded: (string | Reader)[] = []
  for (const part of parts) {
    const last = folded.at(-1)
    if (!part.constant) folded.push(part.read)
    else if (typeof last === 'string') folded[folded.length - 1] = last + toText(part.value)
    else folded.push(toText(part.value))
  }
  if (folded.every((piece) => typeof piece === 'string')) return { constant: true, value: folded.join('') }
  return {
    constant: false,
    read: (scope) => {
      let text = ''
      for (const piece of folded) text += typeof piece === 'string' ? piece : toText(piece(scope))
      return text
    }
  }
}

/** `a || b`: the first that is not missing, null or the empty string; otherwise the last one. */
function compileTemplateNode ({ text, alternatives }: TemplateNode, pointer: string, compilation: Compilation): Part {
  const readers: Reader[] = []
  for (const [index, alternative] of alternatives.entries()) {
    const last = index === alternatives.length - 1
    const part = compileAlternative(alternative, text, pointer, compilation, last)
    if (!part.constant) {
      readers.push(part.read)
    } else if (last || isPresent(part.value)) {
      // A constant that always applies: later alternatives are unreachable.
      if (readers.length === 0) return part
      readers.push(readerOf(part))
      break
    }
  }
  const read = chain(readers)
  compilation.readers.push(read)
  return { constant: false, read }
}

function compileAlternative (
  node: PathNode | LiteralNode,
  template: string,
  pointer: string,
  compilation: Compilation,
  last: boolean
): Part {
  if (node.kind === 'literal') return { constant: true, value: node.value }
  const { context } = compilation
  const reference = resolvePath(node, pointer, context)
  if (reference === undefined) return nothing
  const absence = absenceOf(context.rules, reference)
  if (absence !== undefined) context.faults.add(pointer, absence.message, absence.suggestion)
  if (reference.source === 'env') return environmentPart(String(reference.path[0]), pointer, compilation, last)
  // If an alternative follows, a missing secret is like any missing value.
  if (reference.source === 'secret') return referencePart(last ? { ...reference, fallback: template } : reference, compilation)
  return referencePart(reference, compilation)
}

function referencePart (reference: Reference, compilation: Compilation): Part {
  const key = JSON.stringify([reference.source, ...reference.path])
  if (!compilation.references.has(key)) compilation.references.set(key, reference)
  return { constant: false, read: compileReader(reference) }
}

/** A setting is a constant, unless a secret of the tenant may replace it. */
function environmentPart (name: string, pointer: string, compilation: Compilation, last: boolean): Part {
  const { context } = compilation
  const value = environmentValue(name, pointer, context, last)
  if (!isReplaceable(name, context)) return { constant: true, value }
  context.uses?.add('replaced', name)
  return referencePart({ source: 'secret', path: [name], setting: true, ...(value !== undefined && { fallback: value }) }, compilation)
}

function environmentValue (name: string, pointer: string, { env, faults }: TemplateContext, required: boolean): string | undefined {
  const value = setting(env, name)
  if (value === undefined && required) faults.add(pointer, missingSetting(name, env))
  return value
}

function chain (readers: readonly Reader[]): Reader {
  const [only] = readers
  if (only !== undefined && readers.length === 1) return only
  return (scope: Scope) => {
    let value: unknown
    for (const read of readers) {
      value = read(scope)
      if (isPresent(value)) break
    }
    return value
  }
}

function isPresent (value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}
