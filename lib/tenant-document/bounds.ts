/** Limits the size of a tenant's document. The limits are checked before the document is read, in turns. */
import type { Yielder } from '../concurrency/event-loop-yielder.js'
import { ExactNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { isStorable, unstorableText } from '../json/storable.js'
import { ConfigError, type Fault, pointerTo } from '../schema/faults.js'
import { maxRoutes, maxWorkflows } from './schema.js'

/** The limits of the whole document. */
const maxTotal = { bytes: 1_048_576, values: 100_000, templates: 10_000 }
/** The count stops at this number of faults. */
export const maxFaults = 100

const maxMembers = 50 // of the document itself; ten are defined
const maxDepth = 64 // nested objects and arrays

/** The limits of one piece, which is read in one turn. */
interface Bounds {
  /** The piece in messages, such as `a route`. */
  readonly name: string
  readonly bytes: number
  readonly values: number
  /** null: its strings are not templates, and do not count as such. */
  readonly templates: number | null
  readonly depth: number
}

const route: Bounds = { name: 'a route', bytes: 65_536, values: 2000, templates: 500, depth: maxDepth - 2 }
const workflow: Bounds = { ...route, name: 'a workflow' }
const section: Bounds = { name: 'a section', bytes: 131_072, values: 3000, templates: 500, depth: maxDepth - 1 }
const settings: Bounds = { name: 'the section `settings`', bytes: 65_536, values: 10_000, templates: null, depth: 16 }

/** The counted size: bytes of JSON without white space; objects, arrays, strings, numbers and other values; templates in strings. */
interface Size {
  bytes: number
  values: number
  templates: number
  isUnstorable?: boolean
}

/** The members of a document within the limits. Rejects with a ConfigError if the document exceeds them or is not an object. */
export async function membersOf (document: unknown, yielder: Yielder): Promise<Readonly<Record<string, unknown>>> {
  if (!isRecord(document)) throw new ConfigError([{ pointer: '', message: 'expected an object' }])
  for (const [name, most] of Object.entries({ routes: maxRoutes, workflows: maxWorkflows })) {
    const list = document[name]
    if (Array.isArray(list) && list.length > most) {
      throw new ConfigError([{ pointer: `/${name}`, message: `expected at most ${most} items` }])
    }
  }
  if (Object.keys(document).length > maxMembers) {
    throw new ConfigError([{ pointer: '', message: `the document can have at most ${maxMembers} members` }])
  }
  const total: Size = { bytes: 1, values: 1, templates: 0 } // a comma is counted per member; the last one stands for the brace
  const faults: Fault[] = []
  for (const { pointer, value, bounds, nameBytes } of piecesOf(document)) {
    total.bytes += nameBytes
    const message = await addPiece(value, bounds, total, yielder)
    if (message !== null) faults.push({ pointer, message })
    const whole = beyond(total)
    if (whole !== null) throw new ConfigError([{ pointer: '', message: whole }])
    if (faults.length === maxFaults) throw new ConfigError(faults, true)
    if (yielder.shouldYield()) await yielder.yield()
  }
  if (faults.length > 0) throw new ConfigError(faults)
  return document
}

/** Rejects with a ConfigError if a single piece, such as a route, exceeds the limits of a route. */
export async function requireBounds (value: unknown, pointer: string, yielder: Yielder): Promise<void> {
  const message = await addPiece(value, { ...route, name: 'it' }, { bytes: 0, values: 0, templates: 0 }, yielder)
  if (message !== null) throw new ConfigError([{ pointer, message }])
}

/** The pieces that are read at once: each route, each workflow, each other member of the document. `nameBytes`: its name and a comma. */
function * piecesOf (
  document: Readonly<Record<string, unknown>>
): Generator<{ pointer: string, value: unknown, bounds: Bounds, nameBytes: number }> {
  for (const [name, value] of Object.entries(document)) {
    const pointer = pointerTo('', name)
    const nameBytes = jsonBytes(name) + 2 // with the colon and the comma
    if (!(name === 'routes' || name === 'workflows') || !Array.isArray(value)) {
      yield { pointer, value, bounds: name === 'settings' ? settings : section, nameBytes }
      continue
    }
    yield { pointer, value: [], bounds: section, nameBytes }
    const bounds = name === 'routes' ? route : workflow
    for (let index = 0; index < value.length; index++) {
      yield { pointer: pointerTo(pointer, index), value: value[index], bounds, nameBytes: index === 0 ? 0 : 1 }
    }
  }
}

/** Adds a piece to the total. Returns the reason if the piece or the total is too large, else null; stops at the first excess. */
async function addPiece (piece: unknown, bounds: Bounds, total: Size, yielder: Yielder): Promise<string | null> {
  const size: Size = { bytes: 0, values: 0, templates: 0 }
  const waiting = [piece]
  const depths = [1]
  let result: string | null = null
  for (let steps = 1; waiting.length > 0; steps++) {
    const value = waiting.pop()
    const depth = depths.pop() ?? 1
    if (
      typeof value === 'object' && value !== null && depth > bounds.depth
    ) { return `${bounds.name} can have at most ${bounds.depth} levels of objects and arrays` }
    const inside = count(value, size, bounds)
    result = exceeded(size, bounds)
    if (
      result !== null ||
      beyond({ bytes: total.bytes + size.bytes, values: total.values + size.values, templates: total.templates + size.templates }) !== null
    ) break
    for (const member of inside) {
      waiting.push(member)
      depths.push(depth + 1)
    }
    if (steps % 256 === 0 && yielder.shouldYield()) await yielder.yield()
  }
  total.bytes += size.bytes
  total.values += size.values
  total.templates += size.templates
  return result
}

/** Counts a value without its members, and returns the members. Members of an array or object that is too long are skipped. */
function count (value: unknown, size: Size, bounds: Bounds): readonly unknown[] {
  size.values++
  if (typeof value === 'string') {
    if (value.length > bounds.bytes) {
      size.bytes += value.length
      return []
    }
    addText(size, value)
    if (bounds.templates !== null) size.templates += templatesIn(value)
    return []
  }
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) {
    size.bytes += String(value).length
    return []
  }
  size.bytes += 2 // its brackets; commas are counted below
  if (Array.isArray(value)) {
    size.bytes += Math.max(0, value.length - 1)
    // A sparse array can be long without any items.
    if (value.length > bounds.values) size.values += value.length
    return value.length > bounds.values ? [] : value
  }
  const names = Object.keys(value)
  if (names.length > bounds.values) {
    size.values += names.length
    return []
  }
  size.bytes += names.length + Math.max(0, names.length - 1)
  for (const name of names) addText(size, name)
  return Object.values(value)
}

function addText (size: Size, text: string): void {
  size.bytes += jsonBytes(text)
  if (!isStorable(text)) size.isUnstorable = true
}

function jsonBytes (text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

/** Counts templates with their alternatives, which cost as much. */
function templatesIn (text: string): number {
  let found = 0
  for (const opening of ['{{', '${', '||']) {
    for (let position = text.indexOf(opening); position !== -1; position = text.indexOf(opening, position + 2)) found++
  }
  return found
}

function exceeded (size: Size, { name, bytes, values, templates }: Bounds): string | null {
  if (size.isUnstorable === true) return `${name} ${unstorableText}`
  if (size.bytes > bytes) return `${name} can have at most ${shown(bytes)} bytes as JSON`
  if (size.values > values) return `${name} can have at most ${shown(values)} values`
  return templates !== null && size.templates > templates ? `${name} can have at most ${shown(templates)} templates` : null
}

function beyond (total: Size): string | null {
  return exceeded(total, { name: 'the document', depth: maxDepth, ...maxTotal })
}

function shown (number: number): string {
  return number.toLocaleString('en')
}
