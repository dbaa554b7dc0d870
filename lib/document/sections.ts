/** The sections of a document that were read without a fault: what their schemas promise of them holds. */
import type { Static, TSchema } from 'typebox'
import type { Fault } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import { pointerTo } from '../schema/faults.js'

/** What was read, with the pointer that its faults have. */
export interface Entry<Value> {
  readonly name: string
  readonly pointer: string
  readonly value: Value
}

export class Sections {
  readonly #document: Readonly<Record<string, unknown>>
  readonly #faults: readonly Fault[]

  /** `faults` are those of reading the document that make a value another one than its schema says. */
  constructor (document: unknown, faults: readonly Fault[]) {
    this.#document = isRecord(document) ? document : {}
    this.#faults = [...faults]
  }

  /** The document names the section, well or badly. */
  has (name: string): boolean {
    return Object.hasOwn(this.#document, name)
  }

  /** A section; undefined where the document has none, or a fault was found in it. */
  get<Schema extends TSchema> (name: string, schema: Schema): Static<Schema> | undefined {
    const value = this.has(name) ? this.#document[name] : undefined
    return this.#sound(value, schema, pointerTo('', name)) ? value : undefined
  }

  /** How many members or items a section has, well or badly read. */
  size (name: string): number {
    return this.names(name).length
  }

  /** The names of the members that a section has, well or badly read. */
  names (name: string): readonly string[] {
    const section = this.has(name) ? this.#document[name] : undefined
    return typeof section === 'object' && section !== null ? Object.keys(section) : []
  }

  /** The members or items of a section, one by one: a fault in one keeps none of the others back. */
  entries<Schema extends TSchema> (name: string, schema: Schema): Entry<Static<Schema>>[] {
    const section = this.has(name) ? this.#document[name] : undefined
    if (typeof section !== 'object' || section === null) return []
    return Object.entries(section).flatMap(([member, value]: [string, unknown]) => {
      const pointer = pointerTo('', name, member)
      return this.#sound(value, schema, pointer) ? [{ name: member, pointer, value }] : []
    })
  }

  /** A value that was read by this schema without a fault is of its type. */
  #sound<Schema extends TSchema> (value: unknown, _schema: Schema, pointer: string): value is Static<Schema> {
    return value !== undefined && !this.#faults.some((fault) => fault.pointer === pointer || fault.pointer.startsWith(`${pointer}/`))
  }
}
