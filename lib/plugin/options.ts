/** Checks the options of plugins, so that a wrong one fails the registration. */
import { isPlain } from '../document/json.js'
import { read } from '../document/reader.js'
import { isRecord } from '../json/plain-value.js'
import type { SchemaNode } from '../schema/annotations.js'
import { FaultList, formatFault, nearest } from '../schema/faults.js'

/** Returns the expectation that a value violates, for example `expected a whole number from 1 to 100`. */
export interface OptionCheck {
  (value: unknown): string | undefined
  /** The names of the members, for options that are objects. They show which option a misplaced name belongs to. */
  readonly members?: readonly string[]
  /** The plugin cannot do without the option. Default: false. */
  readonly isRequired?: boolean
  /** The option is data of a document. Default: false. */
  readonly isData?: boolean
}

export type OptionChecks<Options extends object> = { readonly [Name in keyof Required<Options>]: OptionCheck }

/** The option `now` of plugins. */
export interface ClockOption {
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

/** A function of the app. */
export const handler: OptionCheck = (value) => typeof value === 'function' ? undefined : 'expected a function'

/** A function that replaces one of the system in tests, such as a clock. Errors do not list it among the options. */
export const callback: OptionCheck = (value) => handler(value)

export const flag: OptionCheck = (value) => typeof value === 'boolean' ? undefined : 'expected true or false'

export const text: OptionCheck = (value) => typeof value === 'string' ? undefined : 'expected a string'

export const record: OptionCheck = Object.assign(
  (value: unknown) => isRecord(value) ? undefined : 'expected an object',
  { isData: true }
)

export const list: OptionCheck = (value) => Array.isArray(value) ? undefined : 'expected an array'

export function nullable (check: OptionCheck): OptionCheck {
  return (value) => value === null ? undefined : check(value)
}

export function whole (least: number, most: number): OptionCheck {
  return (value) =>
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
      ? undefined
      : `expected a whole number from ${least} to ${most}`
}

export function oneOf (...names: readonly string[]): OptionCheck {
  return (value) => {
    if (typeof value === 'string' && names.includes(value)) return undefined
    const near = typeof value === 'string' ? nearest(value, names) : undefined
    return `expected one of ${names.join(', ')}${near === undefined ? '' : `, did you mean "${near}"?`}`
  }
}

/** An object with these methods, such as a store of the app's own. */
export function withMethods<Methods extends object> (...names: ReadonlyArray<keyof Methods & string>): OptionCheck {
  return (value) =>
    isRecord(value) && names.every((name) => typeof value[name] === 'function')
      ? undefined
      : `expected an object with the methods ${names.join(', ')}`
}

/** A member of a section that the plugin cannot do without. */
export function required (schema: SchemaNode): OptionCheck {
  return Object.assign(section(schema), { isRequired: true })
}

/** The option `config` of plugins. */
export const checkedConfig: OptionCheck = (value) =>
  isRecord(value) && isRecord(value['tenancy']) && isRecord(value['pagination']) && Array.isArray(value['routes'])
    ? undefined
    : 'expected the result of checkConfig'

/** A section of the document, or a member of a section. Templates are plain text here: the caller has resolved its settings. */
export function section (schema: SchemaNode): OptionCheck {
  return Object.assign((value: unknown) => {
    const faults = new FaultList()
    readSection(schema, value, '', faults)
    return faults.faults.length === 0
      ? undefined
      : faults.faults.map((fault) => fault.pointer === '' ? fault.message : formatFault(fault)).join('; ')
  }, { members: Object.keys(schema.properties ?? {}), isData: true })
}

/** Adds the faults of a section that a plugin checks further. */
export function readSection (schema: SchemaNode, value: unknown, pointer: string, faults: FaultList): void {
  read(schema, value, pointer, { faults, env: {}, resolved: true })
}

/** One check for each member of a section whose members are the plugin's options. */
export function membersOf<Name extends string> (
  schema: { readonly properties: { readonly [Key in Name]: SchemaNode } }
): { readonly [Key in Name]: OptionCheck }
export function membersOf (schema: { readonly properties: Readonly<Record<string, SchemaNode>> }): Readonly<Record<string, OptionCheck>> {
  return Object.fromEntries(Object.entries(schema.properties).map(([name, member]) => [name, section(member)]))
}

/** Options of `register` that Fastify, or definePlugin, applies to the endpoints. */
const ofEndpoints: Readonly<Record<string, OptionCheck>> = { routes: flag, prefix: text, logLevel: text, logSerializers: record }

/** Throws one error that names the owner and each of its options that is unknown or wrong. */
export function checkOptions (owner: string, own: Readonly<Record<string, OptionCheck>>, options: object, hasRoutes: boolean): void {
  const checks = hasRoutes ? { ...ofEndpoints, ...own } : own
  const given: Readonly<Record<string, unknown>> = { ...options }
  const faults: string[] = []
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(checks, name)) faults.push(`unknown option "${name}"${hintFor(name, checks)}`)
    else if (value !== undefined) {
      const fault = checks[name]?.(value)
      if (fault !== undefined) faults.push(`${name}${shown(value)}: ${fault}`)
    }
  }
  for (const [name, { isRequired = false }] of Object.entries(checks)) {
    if (isRequired && given[name] === undefined) faults.push(`missing option "${name}"`)
  }
  if (faults.length > 0) throw new Error(`${owner}: ${faults.join('; ')}`)
}

/** The options without undefined ones, and data without undefined members, such as the values of unset environment variables. */
export function withoutUndefined<Options extends object> (own: Readonly<Record<string, OptionCheck>>, options: Options): Options {
  const result = { ...options }
  for (const [name, value] of Object.entries(result)) {
    if (value === undefined) Reflect.deleteProperty(result, name)
    else if (own[name]?.isData === true) Reflect.set(result, name, definedIn(value, []))
  }
  return result
}

/** A value without undefined members. It is not copied if it has none, nor are instances of classes. */
function definedIn (value: unknown, around: readonly object[]): unknown {
  if (typeof value !== 'object' || value === null || around.includes(value)) return value
  const inner = [...around, value]
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => definedIn(item, inner))
    return items.every((item, index) => item === value[index]) ? value : items
  }
  if (!isPlain(value)) return value
  const members = Object.entries(value)
  const defined = members.flatMap(([name, member]: [string, unknown]) =>
    member === undefined ? [] : [[name, definedIn(member, inner)] as const]
  )
  const isSame = defined.length === members.length && defined.every(([, member], index) => member === members[index]?.[1])
  return isSame ? value : Object.fromEntries(defined)
}

function hintFor (name: string, checks: Readonly<Record<string, OptionCheck>>): string {
  const near = nearest(name, Object.keys(checks))
  if (near !== undefined) return `, did you mean "${near}"?`
  const owner = Object.entries(checks).find(([, { members = [] }]) => members.includes(name))
  if (owner !== undefined) return `, did you mean "${owner[0]}.${name}"?`
  const known = Object.keys(checks).filter((option) => checks[option] !== callback)
  return known.length === 0 ? ': there are no options' : `: the options are ${known.join(', ')}`
}

/** Numbers and other scalars are shown. A text or an object may contain a secret. */
function shown (value: unknown): string {
  return typeof value === 'object' || typeof value === 'string' ? '' : ` is ${String(value)}`
}
