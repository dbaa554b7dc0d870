/** Paths into a JSON column, as PostgreSQL writes them: `->'address'->'lines'->0` is JSON, `->>'city'` at the end is text. */
import { literal } from '../database/sql.js'
import { isStorable } from '../json/storable.js'

export interface JsonPath {
  /** Members of objects, and places in arrays; from the end where they are negative. */
  readonly keys: readonly (string | number)[]
  /** The value is text, not JSON. */
  readonly text: boolean
}

/** A path, and the position behind it. */
export interface ReadPath {
  readonly path: JsonPath
  readonly end: number
}

/** The text is no path: what was expected, and where. */
export interface PathFault {
  readonly expected: string
  readonly position: number
}

const maxKeys = 10
const arrow = /\s*->(>?)\s*/y
const quotedKey = /'((?:[^']|'')*)'(?!')/y
const index = /-?\d{1,9}(?![\p{L}\p{N}_$'])/uy

/** Whether a path begins at the position. */
export function startsPath (text: string, position: number): boolean {
  return match(arrow, text, position) !== null
}

/** Reads the path that begins at the position. */
export function readPath (text: string, position: number): ReadPath | PathFault {
  const keys: (string | number)[] = []
  let end = position
  for (;;) {
    const step = match(arrow, text, end)
    if (step === null) return { path: { keys, text: false }, end }
    if (keys.length === maxKeys) return { expected: `at most ${maxKeys} keys in a path`, position: end }
    const at = end + step[0].length
    const quoted = match(quotedKey, text, at)
    const place = quoted === null ? match(index, text, at) : null
    const found = quoted ?? place
    if (found === null) {
      return { expected: "a key in single quotes, such as `->>'city'`, or the place of an item, such as `->0`", position: at }
    }
    if (!isStorable(found[0])) return { expected: 'a key without the character NUL (U+0000) or half of a surrogate pair', position: at }
    keys.push(quoted === null ? Number(found[0]) : quoted[1]!.replaceAll("''", "'"))
    end = at + found[0].length
    if (step[1] === '>') return { path: { keys, text: true }, end }
  }
}

/** The path behind an expression of a JSON type. */
export function writePath ({ keys, text }: JsonPath): string {
  return keys.map((key, index) => `${text && index === keys.length - 1 ? ' ->> ' : ' -> '}${typeof key === 'number' ? key : literal(key)}`)
    .join('')
}

/** The last key that names a member: that of a value by default. */
export function nameOf ({ keys }: JsonPath): string | undefined {
  return keys.findLast((key) => typeof key === 'string')
}

function match (pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position
  return pattern.exec(text)
}
