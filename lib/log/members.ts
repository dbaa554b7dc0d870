/** Redacts the values of JSON members with names of secrets, in a line and in JSON within its texts, at any depth. */
import { kindOfName, tellsSecret } from './names.js'

const backslash = 0x5c

/** The end of a value that is not a string. */
const bare = /(?:\\[^"\\nrt]|[^"\\,}\]])*/y

/** Replaces the value of each such member by `"[Redacted]"`. */
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
    // Redacted values are not searched for members.
    end = over - 2
  }
  return kept === 0 ? line : redacted + line.slice(kept)
}

/**
 * The number of backslashes that a quote of nested JSON has: 0 in the line itself, 1, 3, 7, ... one, two, three texts deep. Other
 * backslashes before the quote belong to the text that it ends.
 */
function escapesOf (line: string, at: number): number {
  let first = at
  while (line.charCodeAt(first - 1) === backslash) first--
  const count = at - first
  // The lowest bits, as far as all are set.
  return (count ^ (count + 1)) >>> 1
}

/** The end of the value that begins there: at the latest the end of its surrounding text. */
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

/** The index behind the string whose text begins at `start`, or the end of the surrounding text if that comes first. */
function endOfString (line: string, start: number, escapes: number): number {
  for (let at = line.indexOf('"', start); at !== -1; at = line.indexOf('"', at + 1)) {
    const own = escapesOf(line, at)
    if (own === escapes) return at + 1
    if (own < escapes) return at - own
  }
  return line.length
}
