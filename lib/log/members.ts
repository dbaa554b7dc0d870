/** Members of JSON that are called like secrets lose their values: of a line, and of JSON that stands in its texts, however deep. */
import { kindOfName, tellsSecret } from './names.js'

const backslash = 0x5c

/** A value that is no string, up to what ends it. */
const bare = /(?:\\[^"\\nrt]|[^"\\,}\]])*/y

/** The value of each member that is called like a secret becomes `"[Redacted]"`. */
export function redactMembers (line: string): string {
  let redacted = ''
  let kept = 0
  for (let end = line.indexOf('":'); end !== -1; end = line.indexOf('":', end + 2)) {
    const escapes = escapesOf(line, end)
    const nameEnd = end - escapes
    const kind = kindOfName(line.slice(line.lastIndexOf('"', nameEnd - 1) + 1, nameEnd))
    if (kind === 'plain') continue
    const start = line.charCodeAt(end + 2) === 0x20 ? end + 3 : end + 2
    const over = endOfValue(line, start, escapes)
    const value = line.slice(start, over)
    if (!tellsSecret(kind, escapes === 0 ? value : value.replaceAll('\\', ''))) continue
    const mark = `${'\\'.repeat(escapes)}"`
    redacted += `${line.slice(kept, start)}${mark}[Redacted]${mark}`
    kept = over
    // What is left out is not searched for members.
    end = over - 2
  }
  return kept === 0 ? line : redacted + line.slice(kept)
}

/**
 * How many of the backslashes before a quote make it one of JSON that stands in a text: 0 for the line's own, 1, 3, 7, ...
 * for what is one, two, three texts deep. The others are backslashes that the text before the quote ends with.
 */
function escapesOf (line: string, at: number): number {
  let first = at
  while (line.charCodeAt(first - 1) === backslash) first--
  const count = at - first
  // The lowest bits, as far as they are all set.
  return (count ^ (count + 1)) >>> 1
}

/** Where a value is over that begins there: at the end of the text that it stands in where it is not. */
function endOfValue (line: string, start: number, escapes: number): number {
  const code = line.charCodeAt(start)
  if (code === 0x7b || code === 0x5b) return endOfCollection(line, start, escapes)
  const open = start + escapes
  if (line.charCodeAt(open) === 0x22 && escapesOf(line, open) === escapes) return endOfString(line, open + 1, escapes)
  bare.lastIndex = start
  bare.test(line)
  return bare.lastIndex
}

function endOfCollection (line: string, start: number, escapes: number): number {
  let depth = 0
  for (let at = start; at < line.length; at++) {
    switch (line.charCodeAt(at)) {
      case 0x22: { // "
        const own = escapesOf(line, at)
        if (own < escapes) return at - own
        if (own === escapes) at = endOfString(line, at + 1, escapes) - 1
        break
      }
      case 0x7b:
      case 0x5b: // { [
        depth++
        break
      case 0x7d:
      case 0x5d: // } ]
        if (--depth === 0) return at + 1
    }
  }
  return line.length
}

/** The index behind the string whose text begins at `start`; where the text ends first that the string stands in, the index of that end. */
function endOfString (line: string, start: number, escapes: number): number {
  for (let at = line.indexOf('"', start); at !== -1; at = line.indexOf('"', at + 1)) {
    const own = escapesOf(line, at)
    if (own === escapes) return at + 1
    if (own < escapes) return at - own
  }
  return line.length
}
