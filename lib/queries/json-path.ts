/** Paths into a JSON column, in PostgreSQL's syntax: `->'address'->'lines'->0` is JSON, and a final `->>'city'` is text. */
import { literal } from '../database/sql.js'
import { isStorable } from '../json/storable.js'

export interface JsonPath {
  /** Names of object members and indexes of array items; negative indexes count from the end. */
  readonly keys: readonly (string | number)[]
  /** The value is text, not JSON. */
  readonly text: boolean
}

/** A path, and the position after it. */
export interface ReadPath {
  readonly path: JsonPath
  readonly end: number
}

/** The text is not a path: the expectation, and its position. */
export interface PathFault {
  readonly expected: string
  readonly position: number
}

const maxKeys = 10
const arrow = /\s*->(>?)\s*/y
const quotedKey = /'((?:[^']|'')*)'(?!')/y
const index = /-?\d{1,9}(?![\p{L}\p{N}_$'])/uy

export function startsPath (text: string, position: number): boolean {
  return match(arrow, text, position) !== null
}

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
      return { expected: "a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0`", position: at }
    }
    if (!isStorable(found[0])) return { expected: 'a key without the character NUL (U+0000) or half of a surrogate pair', position: at }
    keys.push(quoted === null ? Number(found[0]) : quoted[1]!.replaceAll("''", "'"))
    end = at + found[0].length
    if (step[1] === '>') return { path: { keys, text: true }, end }
  }
}

/** Appends the path to an expression of a JSON type. */
export function writePath ({ keys, text }: JsonPath): string {
  return keys.map((key, index) => `${text && index === keys.length - 1 ? ' ->> ' : ' -> '}${typeof key === 'number' ? key : literal(key)}`)
    .join('')
}

/** The last key that is a name: the default name of the value. */
export function nameOf ({ keys }: JsonPath): string | undefined {
  return keys.findLast((key) => typeof key === 'string')
}

function match (pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position
  return pattern.exec(text)
}
