/** Splits an SQL file into statements: the database takes one at a time. */

export interface SqlStatement {
  readonly text: string
  /** The line of its first word, from 1. */
  readonly line: number
}

/** Quoted text and comments, where a semicolon does not end a statement. Nested comments are not supported. */
const parts = [
  /--[^\n]*/y,
  /\/\*[^]*?\*\//y,
  /[eE]'(?:\\[^]|''|[^'\\])*'/y,
  /'(?:''|[^'])*'/y,
  /"(?:""|[^"])*"/y,
  /\$([A-Za-z_]\w*)?\$[^]*?\$\1\$/y,
  /[A-Za-z_][\w$]*/y
]

export function statementsOf (text: string): SqlStatement[] {
  const statements: SqlStatement[] = []
  let begin: number | null = null
  let position = 0
  let line = 1
  let counted = 0 // characters whose line breaks `line` includes
  const end = () => {
    if (begin === null) return
    line += text.slice(counted, begin).split('\n').length - 1
    counted = begin
    statements.push({ text: text.slice(begin, position).trim(), line })
    begin = null
  }
  while (position < text.length) {
    const character = text.charAt(position)
    const length = lengthAt(text, position)
    const isComment = length > 0 && (character === '-' || character === '/')
    if (character === ';') end()
    else if (begin === null && !isComment && character.trim() !== '') begin = position
    position += Math.max(1, length)
  }
  end()
  return statements
}

/** The length of the quoted text or comment that begins at the position; 0 without one. */
function lengthAt (text: string, position: number): number {
  for (const part of parts) {
    part.lastIndex = position
    const found = part.exec(text)
    if (found !== null) return found[0].length
  }
  return 0
}
