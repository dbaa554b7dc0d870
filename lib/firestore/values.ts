/** Values of documents between JSON and Firestore. Types that JSON lacks have the forms of lib/json/typed-values.ts. */
import type * as Sdk from '@google-cloud/firestore'
import { isRecord } from '../json/plain-value.js'
import { timestampText, type TypedName, typedNameOf } from '../json/typed-values.js'
import type { CollectionPlace } from './paths.js'

export type Fields = Readonly<Record<string, unknown>>

export type Values = ReturnType<typeof createValues>

type Parts = Pick<typeof Sdk, 'Timestamp' | 'GeoPoint' | 'DocumentReference' | 'FieldValue' | 'VectorValue'>

export function createValues (
  { Timestamp, GeoPoint, DocumentReference, FieldValue, VectorValue }: Parts,
  client: Sdk.Firestore,
  shared: ReadonlySet<string>
) {
  function encodeValue (value: unknown, place: CollectionPlace): unknown {
    if (Array.isArray(value)) return value.map((item: unknown) => encodeValue(item, place))
    if (!isRecord(value)) return value
    const name = typedNameOf(value)
    return name === undefined ? encode(value, place) : encodeTyped(name, value[name], place)
  }

  /** The fields as Firestore stores them. lib/queries/document-firestore.ts has checked them. */
  function encode (fields: Fields, place: CollectionPlace): Record<string, unknown> {
    return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, encodeValue(value, place)]))
  }

  function encodeTyped (name: TypedName, value: unknown, { root }: CollectionPlace): unknown {
    switch (name) {
      case '$timestamp': {
        const text = String(value)
        return new Timestamp(Math.floor(Date.parse(`${text.slice(0, 19)}Z`) / 1000), Number(text.slice(20, -1)) * 1000)
      }
      case '$reference': {
        const path = String(value)
        return client.doc(shared.has(path.slice(0, path.indexOf('/'))) ? path : `${root}/${path}`)
      }
      case '$geoPoint': {
        const { latitude, longitude } = Object(value)
        return new GeoPoint(Number(latitude), Number(longitude))
      }
      case '$bytes':
        return Buffer.from(String(value), 'base64')
      case '$number':
        return Number(value)
      case '$vector':
        return FieldValue.vector(Array.isArray(value) ? value.map(Number) : [])
    }
  }

  function decodeValue (value: unknown, place: CollectionPlace): unknown {
    switch (typeof value) {
      case 'bigint':
        return value >= leastSafe && value <= mostSafe ? Number(value) : value
      case 'number':
        return Number.isFinite(value) ? value : { $number: String(value) }
      case 'object':
        return value === null ? null : decodeObject(value, place)
      default:
        return value
    }
  }

  function decodeObject (value: object, place: CollectionPlace): unknown {
    if (Array.isArray(value)) return value.map((item: unknown) => decodeValue(item, place))
    if (value instanceof Timestamp) return { $timestamp: timestampText(value.seconds, value.nanoseconds) }
    if (value instanceof GeoPoint) return { $geoPoint: { latitude: value.latitude, longitude: value.longitude } }
    if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') }
    if (value instanceof DocumentReference) return { $reference: relativePath(value.path, place) }
    if (value instanceof VectorValue) return { $vector: value.toArray() }
    return decode(Object(value), place)
  }

  /** null for a document of another tenant, whose id must not be shown. */
  function relativePath (path: string, { root }: CollectionPlace): string | null {
    if (path.startsWith(`${root}/`)) return path.slice(root.length + 1)
    return shared.has(path.slice(0, path.indexOf('/'))) ? path : null
  }

  /** The fields as JSON has them. */
  function decode (fields: Fields, place: CollectionPlace): Record<string, unknown> {
    const decoded: Record<string, unknown> = {}
    for (const name of Object.keys(fields)) {
      const value = decodeValue(fields[name], place)
      if (name === '__proto__') Object.defineProperty(decoded, name, { value, enumerable: true })
      else decoded[name] = value
    }
    return decoded
  }

  return { encode, encodeValue, decode }
}

const mostSafe = BigInt(Number.MAX_SAFE_INTEGER)
const leastSafe = -mostSafe
