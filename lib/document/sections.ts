/** The sections of a document that were read without a fault, with the types of their schemas. */
import type { Static, TObject, TSchema } from 'typebox'
import { isRecord } from '../json/plain-value.js'
import type { Filled } from '../schema/annotations.js'
import { type Fault, pointerTo } from '../schema/faults.js'

/** The result of reading, with the pointer of its faults. */
export interface Entry<Value> {
  readonly name: string
  readonly pointer: string
  readonly value: Value
}

export class Sections {
  readonly #document: Readonly<Record<string, unknown>>
  readonly #faults: readonly Fault[]

  /** `faults` are those of reading that make a value differ from its schema. */
  constructor (document: unknown, faults: readonly Fault[]) {
    this.#document = isRecord(document) ? document : {}
    this.#faults = [...faults]
  }

  /** The document has the section, valid or not. */
  has (name: string): boolean {
    return Object.hasOwn(this.#document, name)
  }

  /** A section; undefined without one, or after a fault in it. */
  get<Schema extends TSchema> (name: string, schema: Schema): Static<Schema> | undefined {
    const value = this.has(name) ? this.#document[name] : undefined
    return this.#sound(value, schema, pointerTo('', name)) ? value : undefined
  }

  /** A section, with these members, which have defaults in the schema. */
  filled<Schema extends TObject, Member extends keyof Static<Schema> & string> (
    name: string,
    schema: Schema,
    ...members: Member[]
  ): Filled<Static<Schema>, Member> | undefined {
    const section = this.get(name, schema)
    return section && filled(section, ...members)
  }

  /** The number of members or items of a section, valid or not. */
  size (name: string): number {
    return this.names(name).length
  }

  /** The names of the members of a section, valid or not. */
  names (name: string): readonly string[] {
    const section = this.has(name) ? this.#document[name] : undefined
    return typeof section === 'object' && section !== null ? Object.keys(section) : []
  }

  /** The members or items of a section, one by one: a fault in one does not affect the others. */
  entries<Schema extends TSchema> (name: string, schema: Schema): Entry<Static<Schema>>[] {
    const section = this.has(name) ? this.#document[name] : undefined
    if (typeof section !== 'object' || section === null) return []
    return Object.entries(section).flatMap(([member, value]: [string, unknown]) => {
      const pointer = pointerTo('', name, member)
      return this.#sound(value, schema, pointer) ? [{ name: member, pointer, value }] : []
    })
  }

  /** A value that this schema read without a fault has its type. */
  #sound<Schema extends TSchema> (value: unknown, _schema: Schema, pointer: string): value is Static<Schema> {
    return value !== undefined && !this.#faults.some((fault) => fault.pointer === pointer || fault.pointer.startsWith(`${pointer}/`))
  }
}

/** The section with all members that have a default in the schema. */
export function filled<Section extends object, Member extends keyof Section & string> (
  section: Section,
  ...members: Member[]
): Filled<Section, Member> {
  if (!has(section, members)) throw new Error(`the schema lacks a default for one of ${members.join(', ')}`)
  return section
}

/** Whether the section has these members. */
export function has<Section extends object, Member extends keyof Section> (
  section: Section,
  members: readonly Member[]
): section is Filled<Section, Member> {
  return members.every((member) => section[member] !== undefined)
}
