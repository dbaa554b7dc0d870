/** The text of HTML. The tokenizer keeps no stack of open elements, so nesting cannot make it slow. Nothing is loaded or run. */
import { Tokenizer } from 'htmlparser2'
import { type Block, BlockList, Pieces, stepLength } from './blocks.js'

const headings: ReadonlySet<string> = new Set(['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'title'])
const paragraphs: ReadonlySet<string> = new Set([
  'address', 'article', 'aside', 'blockquote', 'body', 'caption', 'dd', 'details', 'dialog', 'div', 'dl', 'dt',
  'fieldset', 'figcaption', 'figure', 'footer', 'form', 'head', 'header', 'hr', 'html', 'legend', 'li', 'main', 'nav',
  'ol', 'p', 'pre', 'section', 'summary', 'table', 'tr', 'ul'
])
const cells: ReadonlySet<string> = new Set(['td', 'th', 'option'])
/** The tokenizer finds the ends of these by itself. */
const unread: ReadonlySet<string> = new Set(['script', 'style'])

interface Token {
  readonly kind: 'text' | 'opening' | 'closing'
  /** At most one step of text, or the name of a tag. */
  readonly text: string
}

export function * htmlBlocks (html: string): Generator<Block[]> {
  const list = new BlockList()
  const line = new Line()
  let isHeading = false
  let isPre = false
  let isUnread = false

  const endLine = (): void => {
    const text = line.take()
    if (text !== '') list.addLine(text)
  }
  const flush = (): void => {
    endLine()
    list.end(isHeading)
  }
  const read = (text: string): void => {
    if (isPre) list.add(text)
    // White space as a browser shows it: a line ends at `<br>` only.
    else line.add(text.replace(/[\t\n\f\r ]+/g, ' '))
  }
  const breakLine = (): void => {
    if (isPre) list.add('\n')
    else endLine()
  }
  const opened = (name: string): void => {
    if (unread.has(name)) isUnread = true
    else if (name === 'br') breakLine()
    else if (cells.has(name)) read(' ')
    else if (headings.has(name)) {
      flush()
      isHeading = true
    } else if (paragraphs.has(name)) {
      flush()
      isHeading = false
      isPre = name === 'pre'
    }
  }
  const closed = (name: string): void => {
    if (unread.has(name)) isUnread = false
    else if (headings.has(name) || paragraphs.has(name)) {
      flush()
      isHeading = false
      isPre = false
    }
  }
  for (const tokens of tokensOf(html)) {
    for (const { kind, text } of tokens) {
      if (kind === 'opening') opened(text)
      else if (kind === 'closing') closed(text)
      else if (!isUnread) read(text)
      if (text.length === stepLength) yield list.step()
    }
    yield list.step()
  }
  flush()
  yield list.step()
}

/** The tokens of each step. */
function * tokensOf (html: string): Generator<Token[]> {
  let tokens: Token[] = []
  const none = (): void => {}
  const tokenizer = new Tokenizer({ decodeEntities: true }, {
    ontext (start, end) {
      // The text of a title can have the length of the document.
      for (let at = start; at < end; at += stepLength) tokens.push({ kind: 'text', text: html.slice(at, Math.min(at + stepLength, end)) })
    },
    ontextentity (codepoint) {
      tokens.push({ kind: 'text', text: String.fromCodePoint(codepoint) })
    },
    onopentagname (start, end) {
      tokens.push({ kind: 'opening', text: html.slice(start, end).toLowerCase() })
    },
    onclosetag (start, end) {
      tokens.push({ kind: 'closing', text: html.slice(start, end).toLowerCase() })
    },
    onselfclosingtag: none,
    onopentagend: none,
    onattribdata: none,
    onattribentity: none,
    onattribend: none,
    onattribname: none,
    oncdata: none,
    oncomment: none,
    ondeclaration: none,
    onprocessinginstruction: none,
    onend: none
  })
  for (let at = 0; at < html.length; at += stepLength) {
    tokenizer.write(html.slice(at, at + stepLength))
    yield tokens
    tokens = []
  }
  tokenizer.end()
  yield tokens
}

/** A line in parts without repeated spaces. */
class Line {
  readonly #parts = new Pieces()
  #endsWithSpace = false

  add (part: string): void {
    if (part === '') return
    this.#parts.add(this.#endsWithSpace && part.startsWith(' ') ? part.slice(1) : part)
    this.#endsWithSpace = part.endsWith(' ')
  }

  /** The text without spaces at its ends, which it removes. */
  take (): string {
    this.#endsWithSpace = false
    return this.#parts.take().trim()
  }
}
