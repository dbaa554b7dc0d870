/** The syntax of templates: text with `{{...}}` becomes segments. reference.ts resolves their names. */
import { LRUCache } from 'lru-cache'
import { type Exact, numberIn } from '../json/exact-number.js'
import type { FaultList } from '../schema/faults.js'

/** Bounds of one template, so that a hostile document costs little. */
const maxAlternatives = 32
const maxPathMembers = 32

/** The allowed keys of secrets, for messages. */
export const secretKeyForm = '1 to 128 of A-Z, a-z, 0-9, `_`, `.` and `-`'

/** A parsed path; its first name may not be a source. */
export interface PathNode {
  readonly kind: 'path'
  readonly source: string
  readonly path: readonly (string | number)[]
  /** Written as a call: `now()`. */
  readonly call: boolean
  readonly text: string
}

export interface LiteralNode {
  readonly kind: 'literal'
  readonly value: string | number | Exact | boolean | null
}

/** `{{a || b || 10}}`: the alternatives in order. */
export interface TemplateNode {
  /** As it was written, with its braces. */
  readonly text: string
  readonly alternatives: readonly (PathNode | LiteralNode)[]
}

export type Segment = string | TemplateNode

/** A syntax error in a template; `position` counts characters from 0. */
export class TemplateSyntaxError extends Error {
  constructor (message: string, readonly position: number) {
    super(message)
  }
}

/** The parsed value; undefined after a fault with the position of a syntax error. */
export function parseOrFault<Parsed> (parse: () => Parsed, pointer: string, faults: FaultList): Parsed | undefined {
  try {
    return parse()
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error
    faults.add(pointer, `${error.message} (at character ${error.position + 1})`)
    return undefined
  }
}

/** Whether a text contains a possible template. */
export function hasTemplate (text: string): boolean {
  return text.includes('{{') || text.includes('${') || text.includes('}}')
}

/** Splits a text into segments; throws TemplateSyntaxError. `${NAME}` reads as `{{env.NAME}}`; a literal `{{` is written `{{ '{{' }}`. */
export function parseTemplate (text: string): readonly Segment[] {
  return parsed.memo(text)
}

/** A text is parsed for the check, for the route, and for the measure of its copies. */
const parsed = new LRUCache<string, readonly Segment[]>({
  max: 2000,
  maxSize: 1_000_000,
  sizeCalculation: (_segments, text) => text.length + 1,
  memoMethod: parseSegments
})

function parseSegments (text: string): Segment[] {
  const segments: Segment[] = []
  let start = 0
  let position = 0
  const flush = (end: number) => {
    if (end > start) segments.push(text.slice(start, end))
  }
  while (position < text.length) {
    if (text.startsWith('{{', position)) {
      flush(position)
      const scanner = new Scanner(text, position + 2)
      segments.push(scanner.template())
      start = position = scanner.position
    } else if (text.startsWith('${', position) && !text.startsWith('${{', position)) {
      const name = environmentName.exec(text.slice(position + 2, position + 2 + 256))
      if (name === null) {
        position += 2
        continue
      }
      flush(position)
      segments.push({
        text: `\${${name[0]}`,
        alternatives: [{ kind: 'path', source: 'env', path: [name[1]!], call: false, text: `env.${name[1]!}` }]
      })
      start = position = position + 2 + name[0].length
    } else {
      position++
    }
  }
  flush(text.length)
  refuseStrayBraces(text, segments)
  return segments
}

/** Parses the template at a position, and returns its end; throws TemplateSyntaxError. */
export function parseTemplateAt (text: string, opening: number): { readonly node: TemplateNode, readonly end: number } {
  const scanner = new Scanner(text, opening + 2)
  const node = scanner.template()
  return { node, end: scanner.position }
}

/** Parses a path without braces, such as `query.lang`; throws TemplateSyntaxError. */
export function parsePath (text: string): PathNode {
  const scanner = new Scanner(text, 0)
  scanner.space()
  const path = scanner.path()
  scanner.space()
  if (scanner.position < text.length) throw new TemplateSyntaxError(`unexpected "${text.charAt(scanner.position)}"`, scanner.position)
  return path
}

const environmentName = /^([A-Za-z_][A-Za-z0-9_]*)\}/
const name = /[\p{L}\p{N}_$-]+/uy
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\p{L}\p{N}_$.-])/uy
const index = /\[\s*(0|[1-9]\d{0,8})\s*\]/y
const secretKey = /[A-Za-z0-9_.-]{1,128}(?![A-Za-z0-9_.-])/y
const escapes: ReadonlyMap<string, string> = new Map([['n', '\n'], ['r', '\r'], ['t', '\t'], ['\\', '\\'], ['"', '"'], ["'", "'"]])

class Scanner {
  constructor (readonly text: string, public position: number) {}

  /** The inside of `{{...}}` and its closing braces. */
  template (): TemplateNode {
    const opening = this.position - 2
    const alternatives: (PathNode | LiteralNode)[] = []
    this.space()
    if (this.takes('}}')) throw new TemplateSyntaxError('the template is empty', opening)
    for (;;) {
      if (alternatives.length === maxAlternatives) {
        throw new TemplateSyntaxError(`a template can have at most ${maxAlternatives} alternatives`, this.position)
      }
      alternatives.push(this.alternative(opening))
      this.space()
      if (this.takes('}}')) return { text: this.text.slice(opening, this.position), alternatives }
      if (!this.takes('||')) this.fail(opening, 'expected `||` or `}}`')
      this.space()
    }
  }

  alternative (opening: number): PathNode | LiteralNode {
    const next = this.text.charAt(this.position)
    if (next === '"' || next === "'") return { kind: 'literal', value: this.quoted(next) }
    const digits = this.match(number)
    // A number beyond the bounds of a body stays a double.
    if (digits !== null) return { kind: 'literal', value: numberIn(digits[0]) ?? Number(digits[0]) }
    if (next === '' || next === '}' || next === '|') this.fail(opening, 'expected a path or a default')
    const path = this.path()
    if (path.path.length > 0 || path.call) return path
    switch (path.source) {
      case 'true':
        return { kind: 'literal', value: true }
      case 'false':
        return { kind: 'literal', value: false }
      case 'null':
        return { kind: 'literal', value: null }
      default:
        return path
    }
  }

  path (): PathNode {
    const start = this.position
    const source = this.match(name)
    if (source === null) throw new TemplateSyntaxError('expected a path, a number, a quoted string, true, false or null', start)
    const done = (path: (string | number)[], call = false): PathNode => ({
      kind: 'path',
      source: source[0],
      path,
      call,
      text: this.text.slice(start, this.position)
    })
    if (source[0] === 'secret' && (this.takes(':') || this.takes('.'))) {
      const key = this.match(secretKey)
      if (key === null) throw new TemplateSyntaxError(`expected the key of a secret: ${secretKeyForm}`, this.position)
      return done([key[0]])
    }
    if (this.takes('()')) return done([], true)
    const path: (string | number)[] = []
    for (;;) {
      if (path.length > maxPathMembers) throw new TemplateSyntaxError(`a path can have at most ${maxPathMembers} members`, this.position)
      if (this.takes('.')) {
        const member = this.match(name)
        if (member === null) throw new TemplateSyntaxError('expected a name after "."', this.position)
        path.push(member[0])
      } else if (this.text.charAt(this.position) === '[') {
        path.push(this.subscript())
      } else {
        return done(path)
      }
    }
  }

  /** `[0]`, or `['a name']` for names that cannot follow a dot. */
  subscript (): string | number {
    const at = this.match(index)
    if (at !== null) return Number(at[1])
    const start = this.position
    this.position++
    this.space()
    const quote = this.text.charAt(this.position)
    if (quote === '"' || quote === "'") {
      const member = this.quoted(quote)
      this.space()
      if (this.takes(']')) return member
    }
    throw new TemplateSyntaxError('expected an index or a quoted name, and "]"', start)
  }

  quoted (quote: string): string {
    const start = this.position
    let value = ''
    for (this.position++; this.position < this.text.length; this.position++) {
      const character = this.text.charAt(this.position)
      if (character === quote) {
        this.position++
        return value
      }
      if (character !== '\\') {
        value += character
        continue
      }
      const escaped = escapes.get(this.text.charAt(++this.position))
      if (escaped === undefined) throw new TemplateSyntaxError('unknown escape: expected one of \\n \\r \\t \\\\ \\" and \\\'', this.position)
      value += escaped
    }
    throw new TemplateSyntaxError(`the string that starts with ${quote} is not closed`, start)
  }

  space (): void {
    while (/\s/.test(this.text.charAt(this.position))) this.position++
  }

  takes (token: string): boolean {
    if (!this.text.startsWith(token, this.position)) return false
    this.position += token.length
    return true
  }

  match (pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.position
    const found = pattern.exec(this.text)
    if (found !== null) this.position += found[0].length
    return found
  }

  fail (opening: number, expected: string): never {
    if (!this.text.includes('}}', this.position)) throw new TemplateSyntaxError('`{{` is not closed with `}}`', opening)
    throw new TemplateSyntaxError(expected, this.position)
  }
}

/** `{body.id}}` is a typing mistake, `{"a":{"b":1}}` is text: plain text must not close more braces than it opens. */
function refuseStrayBraces (text: string, segments: readonly Segment[]): void {
  const plain = segments.filter((segment) => typeof segment === 'string').join('')
  if (!plain.includes('}}')) return
  const opened = plain.split('{').length
  const closed = plain.split('}').length
  if (closed > opened) throw new TemplateSyntaxError('`}}` has no matching `{{`', text.lastIndexOf('}}'))
}
