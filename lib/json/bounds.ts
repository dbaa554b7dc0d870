/** Bounds of JSON from outside, checked before it is parsed: each new key takes `JSON.parse` up to 1.7 µs, so 1 MB could take 0.2 s. */
import { randomBytes } from 'node:crypto'

/** Nested arrays and objects: validators, templates and `JSON.stringify` may recurse over a value. */
const maxJsonDepth = 64
/** Different keys, compared by their 32-bit hashes. A key counts again after other keys: JavaScript then creates another hidden class. */
export const maxJsonKeys = 10_000
/** Members of objects, and nested objects and arrays: 1,000 records of 20 columns have 21,000. */
export const maxJsonMembers = 100_000
/** Items of arrays. */
export const maxJsonItems = 500_000
/** Different keys in a database result: 1,000 rows, each with 50 keys of its own. The rows of one table have as many as its columns. */
export const maxStoredKeys = 50_000

const smallText = 50_000 // characters; shorter texts have no room for `maxJsonKeys` different keys

/** The bounds of a text. */
interface Bounds {
  readonly depth: number
  readonly keys: number
  readonly members: number
  readonly items: number
}

const sent: Bounds = { depth: maxJsonDepth, keys: maxJsonKeys, members: maxJsonMembers, items: maxJsonItems }
/** The statement bounds its bytes, and embedded tables nest around stored JSON. */
const stored: Bounds = { depth: 1000, keys: maxStoredKeys, members: Infinity, items: Infinity }

const leastKeyLength = 5 // characters of the shortest member: `"":1,`

const quote = 0x22
const backslash = 0x5c

/** The exceeded bound, as the rest of a sentence: "has more than ..."; null if all are met. Syntax is not checked. */
export function jsonExcess (text: string): string | null {
  if (text.length > smallText) return scan(text, sent)
  return hasMoreOpeners(text, maxJsonDepth) ? scan(text, sent) : null
}

/** The same for a database result. Texts without room for that many keys are not scanned. */
export function storedExcess (text: string): string | null {
  return text.length > maxStoredKeys * leastKeyLength ? scan(text, stored) : null
}

/** Parses text within the bounds; throws an Error with that sentence beyond them, and a SyntaxError for text that is not JSON. */
export function parseBounded (text: string): unknown {
  const excess = jsonExcess(text)
  if (excess !== null) throw new Error(`the JSON ${excess}`)
  return JSON.parse(text)
}

const number = (value: number) => value.toLocaleString('en')

/** The rest of a sentence for each exceeded bound. */
const excesses = {
  depth: ({ depth }: Bounds) => `is nested deeper than ${depth} levels`,
  keys: ({ keys }: Bounds) => `has more than ${number(keys)} different keys, where a key after other keys counts again`,
  members: ({ members }: Bounds) => `has more than ${number(members)} members, objects and arrays`,
  items: ({ items }: Bounds) => `has more than ${number(items)} items in its arrays`
}

// For each level: whether it is an object, and the hash of its keys so far.
const isObject = new Uint8Array(stored.depth + 1)
const hashes = new Int32Array(stored.depth + 1)
// Open hash tables of keys, at most half full.
const seenSent = new Int32Array(32_768)
const seenStored = new Int32Array(131_072)
// Random, so that callers cannot choose keys with equal hashes.
const multiplier = randomBytes(4).readInt32LE() | 1

function scan (text: string, bounds: Bounds): string | null {
  const seen = bounds === sent ? seenSent : seenStored
  let [depth, members, items, keys] = [0, 0, 0, 0]
  let keyIsNext = false
  seen.fill(0)
  isObject[0] = 0
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case quote: {
        const end = endOfString(text, index)
        if (keyIsNext) {
          keyIsNext = false
          const hash = hashOf(text, index + 1, end, hashes[depth]!)
          hashes[depth] = hash
          if (++members > bounds.members) return excesses.members(bounds)
          if (isNew(seen, hash) && ++keys > bounds.keys) return excesses.keys(bounds)
        }
        index = end
        break
      }
      case 0x2c: // ,
        if (isObject[depth] === 1) keyIsNext = true
        else if (++items > bounds.items) return excesses.items(bounds)
        break
      case 0x5b:
      case 0x7b: // [ {
        if (++depth > bounds.depth) return excesses.depth(bounds)
        if (++members > bounds.members) return excesses.members(bounds)
        keyIsNext = text.charCodeAt(index) === 0x7b
        isObject[depth] = keyIsNext ? 1 : 0
        hashes[depth] = 1
        break
      case 0x5d:
      case 0x7d: // ] }
        keyIsNext = false
        if (depth > 0) depth--
    }
  }
  return null
}

/** The hash of the key and of those before it in its object. */
function hashOf (text: string, start: number, end: number, before: number): number {
  let hash = Math.imul(before, multiplier) + end - start
  for (let index = start; index < end; index++) hash = Math.imul(hash, multiplier) + text.charCodeAt(index)
  hash ^= hash >>> 15
  return hash === 0 ? 1 : hash | 0
}

function isNew (seen: Int32Array, hash: number): boolean {
  for (let place = hash & (seen.length - 1); ; place = (place + 1) & (seen.length - 1)) {
    const found = seen[place]
    if (found === hash) return false
    if (found === 0) {
      seen[place] = hash
      return true
    }
  }
}

/** Counts brackets, also those in strings, with a fast search: most texts have few and need no scan. */
function hasMoreOpeners (text: string, limit: number): boolean {
  let count = 0
  for (const opener of ['{', '[']) {
    for (let index = text.indexOf(opener); index !== -1; index = text.indexOf(opener, index + 1)) {
      if (++count > limit) return true
    }
  }
  return false
}

/** The index of the quote that ends the string: the next one after an even number of backslashes, or the text's length. */
export function endOfString (text: string, start: number): number {
  for (let index = text.indexOf('"', start + 1); index !== -1; index = text.indexOf('"', index + 1)) {
    let before = index - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((index - before) % 2 === 1) return index
  }
  return text.length
}
