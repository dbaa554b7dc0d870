/** An expression of a document made into CEL: templates become variables, `===` becomes `==`. Positions in CEL map back to the document. */
import { parseTemplateAt, type TemplateNode, TemplateSyntaxError } from './template-parser.js'

/** A template in an expression, by the variable that replaces it. */
export interface ExpressionTemplate {
  readonly variable: string
  /** The template as written, with its braces. */
  readonly text: string
  readonly node: TemplateNode
  /** It is inside a string literal, so its value becomes text. */
  readonly asText: boolean
}

export interface CelText {
  readonly text: string
  /** The text in the document. */
  readonly source: string
  readonly templates: readonly ExpressionTemplate[]
  /** The position in the document's text of a position in the CEL text. */
  readonly origin: (position: number) => number
}

/** The prefix of variables that replace templates; names of documents cannot have it. */
export const variablePrefix = '__'

/** Rewrites an expression; throws TemplateSyntaxError. */
export function toCel (source: string): CelText {
  const output = new Output()
  const templates: ExpressionTemplate[] = []
  let position = 0

  const takeTemplate = (asText: boolean): string => {
    const { node, end } = parseTemplateAt(source, position)
    const variable = `${variablePrefix}t${templates.length}`
    templates.push({ variable, text: source.slice(position, end), node, asText })
    position = end
    return variable
  }

  const takeString = (quote: string) => {
    const start = position
    const isPlain = !/[rRbB]/.test(source.charAt(start - 1)) && quote.length === 1
    const pieces: string[] = []
    let piece = ''
    for (position += quote.length; !source.startsWith(quote, position);) {
      if (position >= source.length) throw new TemplateSyntaxError(`the string that starts with ${quote} is not closed`, start)
      if (source.startsWith('{{', position)) {
        if (!isPlain) throw new TemplateSyntaxError('a template is not allowed in a raw, bytes or triple-quoted string', position)
        if (piece !== '') pieces.push(quote + piece + quote)
        piece = ''
        pieces.push(takeTemplate(true))
        continue
      }
      const length = source.charAt(position) === '\\' ? 2 : 1
      piece += source.slice(position, position + length)
      position += length
    }
    position += quote.length
    if (piece !== '' || pieces.length === 0) pieces.push(quote + piece + quote)
    output.add(pieces.length === 1 ? pieces.join('') : `(${pieces.join(' + ')})`, start)
  }

  while (position < source.length) {
    const character = source.charAt(position)
    if (character === '"' || character === "'") {
      const triple = character.repeat(3)
      takeString(source.startsWith(triple, position) ? triple : character)
    } else if (source.startsWith('{{', position)) {
      const start = position
      output.add(takeTemplate(false), start)
    } else if (source.startsWith('===', position) || source.startsWith('!==', position)) {
      output.add(source.slice(position, position + 2), position)
      position += 3
    } else if (source.startsWith('//', position)) {
      const end = source.indexOf('\n', position)
      position = end === -1 ? source.length : end
    } else {
      output.add(character, position, true)
      position++
    }
  }
  return { text: output.text, source, templates, origin: (at) => output.origin(at) }
}

/** A growing text that keeps the origin of each part. */
class Output {
  text = ''
  readonly #parts: { readonly start: number, readonly source: number, readonly copied: boolean }[] = []

  /** `copied`: the text is that of the document, character by character. */
  add (text: string, source: number, copied = false): void {
    this.#parts.push({ start: this.text.length, source, copied })
    this.text += text
  }

  origin (position: number): number {
    const part = this.#parts.findLast(({ start }) => start <= position)
    if (part === undefined) return 0
    return part.copied ? part.source + position - part.start : part.source
  }
}
