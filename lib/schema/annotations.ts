/** Keywords of the document's schemas beyond JSON Schema, for the check, schema.json and the reference. */
import {
  type TArrayOptions, type TNumberOptions, type TObjectOptions, type TProperties, type TSchema, type TSchemaOptions,
  type TStringOptions, Type
} from 'typebox'

/**
 * How a text of the document is read:
 * - `environment` (the default): `{{env.NAME}}` and `${NAME}` are resolved while the document is checked
 * - `request`: any template, compiled with the route and resolved for each request
 * - `literal`: as it is written
 */
export type TextMode = 'environment' | 'request' | 'literal'

/** Keywords of the project; JSON Schema ignores them. */
export interface Annotations {
  readonly text?: TextMode
  /** The unit of a number: `s`, `ms`, `bytes`, ... */
  readonly unit?: string
  /** The meaning of a `pattern`, or of the bounds of a number, in words. */
  readonly expected?: string
}

/** The part of JSON Schema that the schemas of the document use. */
export interface SchemaNode extends Annotations {
  /** TypeBox's marker of its schemas. */
  readonly '~kind'?: string
  readonly '~unsafe'?: unknown
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly items?: SchemaNode
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly required?: readonly string[]
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>
  readonly additionalProperties?: boolean
  readonly minProperties?: number
  readonly anyOf?: readonly SchemaNode[]
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, SchemaNode>>
}

/** The type of a section after the check has filled in the defaults of these members. */
export type Filled<Input, Members extends keyof Input> = Input & { [Member in Members]-?: Exclude<Input[Member], undefined> }

/** An object that accepts only the named members. */
export function ClosedObject<Properties extends TProperties> (properties: Properties, options: TObjectOptions = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options })
}

/** The form of most names. */
export const plainName = { pattern: '^[A-Za-z0-9_-]{1,64}$', expected: '1 to 64 of A-Z a-z 0-9 _ -' }

/** A map whose names the document chooses. */
export function MapOf<Value extends TSchema> (value: Value, options: { description: string, default?: object }) {
  return Type.Record(Type.String(), value, options)
}

/** Members that a document may leave out. */
export const Optional = {
  String: (description: string, options: TStringOptions = {}) => Type.Optional(Type.String({ ...options, description })),
  Integer: (description: string, options: TNumberOptions = {}) => Type.Optional(Type.Integer({ ...options, description })),
  Number: (description: string, options: TNumberOptions = {}) => Type.Optional(Type.Number({ ...options, description })),
  Boolean: (description: string, options: TSchemaOptions = {}) => Type.Optional(Type.Boolean({ ...options, description })),
  Unknown: (description: string, options: TSchemaOptions = {}) => Type.Optional(Type.Unknown({ ...options, description })),
  Array: <Item extends TSchema>(description: string, items: Item, options: TArrayOptions = {}) =>
    Type.Optional(Type.Array(items, { ...options, description })),
  Map: <Value extends TSchema>(description: string, value: Value, options: TObjectOptions = {}) =>
    Type.Optional(Type.Record(Type.String(), value, { ...options, description })),
  Enum: <Values extends string[]>(description: string, values: readonly [...Values], options: TSchemaOptions = {}) =>
    Type.Optional(Type.Enum(values, { ...options, description })),
  Union: <Types extends TSchema[]>(description: string, types: [...Types], options: TSchemaOptions = {}) =>
    Type.Optional(Type.Union(types, { ...options, description }))
}

/** A section as a program writes it. A member may be undefined, such as the value of an unset environment variable. */
export type Settable<Section> = { readonly [Member in keyof Section]?: Section[Member] | undefined }
