/** The text of HTML. The tokenizer keeps no stack of open elements, so nesting cannot make it slow. Nothing is loaded or run. */
import { Tokenizer } from 'htmlparser2'
import { type Block, BlockList } from './blocks.js'

const headings: ReadonlySet<string> = new Set(['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'title'])
const paragraphs: ReadonlySet<string> = new Set([
  'address', 'article', 'aside', 'blockquote', 'body', 'caption', 'dd', 'details', 'dialog', 'div', 'dl', 'dt',
  'fieldset', 'figcaption', 'figure', 'footer', 'form', 'head', 'header', 'hr', 'html', 'legend', 'li', 'main', 'nav',
  'ol', 'p', 'pre', 'section', 'summary', 'table', 'tr', 'ul'
])
const cells: ReadonlySet<string> = new Set(['td', 'th', 'option'])
/** The tokenizer finds the ends of these by itself. */
const unread: ReadonlySet<string> = new Set(['script', 'style'])

export function htmlBlocks (html: string): Block[] {
  const list = new BlockList()
  let parts: string[] = []
  let isHeading = false
  let isPre = false
  let isUnread = false

  const flush = (): void => {
    const text = parts.join('')
    list.add(isPre ? text : spaced(text), isHeading)
    parts = []
  }
  const opened = (name: string): void => {
    if (unread.has(name)) isUnread = true
    else if (name === 'br') parts.push('\n')
    else if (cells.has(name)) parts.push(' ')
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
  const none = (): void => {}
  const tokenizer = new Tokenizer({ decodeEntities: true }, {
    ontext (start, end) {
      if (!isUnread) parts.push(html.slice(start, end))
    },
    ontextentity (codepoint) {
      if (!isUnread) parts.push(String.fromCodePoint(codepoint))
    },
    onopentagname (start, end) {
      opened(html.slice(start, end).toLowerCase())
    },
    onclosetag (start, end) {
      closed(html.slice(start, end).toLowerCase())
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
  tokenizer.write(html)
  tokenizer.end()
  flush()
  return list.blocks
}

/** White space as a browser shows it, with the breaks of `<br>`. */
function spaced (text: string): string {
  return text.split('\n').map((line) => line.replace(/[\t\f\r ]+/g, ' ').trim()).filter((line) => line !== '').join('\n')
}
