/** Bodies of calls: values without their empty parts, and their serialization. */
import { failure } from '../errors.js'
import type { TemplateContext } from '../expressions/reference.js'
import { maxResultBytes } from '../expressions/result.js'
import { compileValue, toText } from '../expressions/template.js'
import type { CompiledValue, Reference } from '../expressions/types.js'
import { ExactNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson } from '../json/stringify.js'
import { pointerTo } from '../schema/faults.js'
import { invalidInput } from '../validation/detail.js'
import { addressTooLong, maxAddressLength } from './address.js'

const maxDepth = 32 // nested objects and arrays of a declared body and of a form

/** The name of a member whose members move into the object around it. */
const spread = '...'

/** Compiles a value like compileValue, but leaves out objects and lists without any value, and spreads the members of a member `...`. */
export function compilePruned (value: unknown, pointer: string, context: TemplateContext): CompiledValue {
  const references: Reference[] = []
  const part = prunedPart(value, pointer, context, references, 0)
  return Object.freeze({ constant: part.constant, references: Object.freeze(references), evaluate: part.evaluate })
}

type Part = Pick<CompiledValue, 'constant' | 'evaluate'>
type Member = readonly [name: string, part: Part]

function prunedPart (value: unknown, pointer: string, context: TemplateContext, references: Reference[], depth: number): Part {
  if (typeof value !== 'object' || value === null) {
    const compiled = compileValue(value, pointer, context)
    references.push(...compiled.references)
    return compiled
  }
  if (depth === maxDepth) {
    context.faults.add(pointer, `objects and arrays can be nested at most ${maxDepth} levels deep`)
    return compileValue(undefined, pointer, context)
  }
  if (Array.isArray(value)) {
    const items = value.map((item: unknown, index): Member =>
      ['', prunedPart(item, pointerTo(pointer, index), context, references, depth + 1)]
    )
    return pruned(items, depth === 0, (values) => values.map(([, item]) => item))
  }
  const members = Object.entries(value).flatMap(([name, member]: [string, unknown]): Member[] => {
    const at = pointerTo(pointer, name)
    if (name !== '__proto__' && !name.includes('{{')) return [[name, prunedPart(member, at, context, references, depth + 1)]]
    context.faults.add(at, name === '__proto__' ? 'a member cannot have the name "__proto__"' : 'the name of a member cannot be a template')
    return []
  })
  return pruned(members, depth === 0, recordOf)
}

/** `stays`: the value is kept even if it is empty. */
function pruned (members: readonly Member[], stays: boolean, make: (values: readonly [string, unknown][]) => unknown): Part {
  const constant = members.every(([, member]) => member.constant)
  return {
    constant,
    evaluate: (scope) => {
      const values: [string, unknown][] = []
      let given = constant || stays
      for (const [name, member] of members) {
        const value = member.evaluate(scope)
        if (value === undefined) continue
        values.push([name, value])
        given ||= !member.constant
      }
      return given ? make(values) : undefined
    }
  }
}

function recordOf (values: readonly [string, unknown][]): Record<string, unknown> {
  const moved = values.flatMap(([name, value]) => name === spread ? Object.entries(Object(value)) : [[name, value] as const])
  return Object.fromEntries(moved.filter(([name]) => name !== '__proto__'))
}

/** A body as it is sent. */
export interface BodyText {
  readonly text: string
  readonly contentType: string
}

export function requestTooLarge (): Error {
  return failure('answerTooLarge', { message: 'The request to the service would be too large' })
}

/** Serializes a body; throws `validationFailed` if the value has no such form. */
export function writeBody (value: unknown, type: string): BodyText {
  switch (type) {
    case 'form':
      return { text: formText(value), contentType: 'application/x-www-form-urlencoded' }
    case 'raw':
      return { text: toText(value), contentType: 'text/plain; charset=utf-8' }
    default:
      return { text: jsonText(value), contentType: 'application/json' }
  }
}

function jsonText (value: unknown): string {
  try {
    return stringifyJson(value)
  } catch {
    throw invalidInput('/params', 'is nested too deeply', 'depth')
  }
}

/** A form in the style of Stripe: `a[b]=c` for members, `a[0]=c` for items. */
function formText (value: unknown): string {
  if (typeof value === 'string') return value
  if (!isRecord(value)) throw invalidInput('/params', 'a form must be an object', 'type')
  const form: Form = { pairs: [], left: maxResultBytes }
  for (const [name, member] of Object.entries(value)) appendTo(form, name, member, 0)
  return form.pairs.join('&')
}

/** Encoded names and values. Names repeat and may be long; `left`: remaining characters. */
interface Form {
  readonly pairs: string[]
  left: number
}

function append (form: Form, name: string, text: string): void {
  // Encoding a longer text would take seconds.
  if (Buffer.byteLength(name) + Buffer.byteLength(text) > form.left) throw requestTooLarge()
  const pair = `${formEncoded(name)}=${formEncoded(text)}`
  form.left -= pair.length + 1
  if (form.left < 0) throw requestTooLarge()
  form.pairs.push(pair)
}

/** URLSearchParams would take ten times as long. */
function formEncoded (text: string): string {
  return encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\uFFFD')).replaceAll('%20', '+')
}

function appendTo (form: Form, name: string, value: unknown, depth: number): void {
  if (value === undefined || value === null) return
  if (typeof value !== 'object' || value instanceof ExactNumber) {
    append(form, name, String(value))
    return
  }
  if (depth === maxDepth) throw invalidInput('/params', `is nested more than ${maxDepth} levels deep, which is not supported in forms`, 'depth')
  for (const [member, inner] of Object.entries(value)) appendTo(form, `${name}[${member}]`, inner, depth + 1)
}

/** A query string: items of a list are parameters of one name. Throws `addressRefused` if it is too long. */
export function queryOf (members: Readonly<Record<string, unknown>>): URLSearchParams {
  const query = new URLSearchParams()
  let left = maxAddressLength
  for (const [name, value] of Object.entries(members)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item === undefined || item === null) continue
      const text = toText(item)
      left -= name.length + text.length
      if (left < 0) throw addressTooLong()
      query.append(name, text)
    }
  }
  return query
}
