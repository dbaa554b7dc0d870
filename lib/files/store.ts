/**
 * The interface of the stores of files. A store keeps objects: bytes under a key. It knows nothing of names, owners or
 * permissions, which are in the database.
 */
import type { Readable } from 'node:stream'

/** An object that is stored. */
export interface StoredObject {
  readonly key: string
  /** Bytes. */
  readonly size: number
  readonly modifiedAt: Date
}

/** A part of an object: the first and the last byte, both included. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/** An upload or a download without a token, to an address outside this server. */
export interface SignedRequest {
  readonly method: 'GET' | 'PUT'
  readonly url: string
  /** The headers that the request must carry. */
  readonly headers: Readonly<Record<string, string>>
}

/** The request that `sign` allows. An upload fixes the size, and the store refuses another one. */
export type Signing =
  | { readonly method: 'GET', readonly seconds: number, readonly contentType: string, readonly contentDisposition: string }
  | { readonly method: 'PUT', readonly seconds: number, readonly contentType: string, readonly size: number }

/**
 * Keys are written once: an object never changes. Every method rejects with `storageUnavailable` if the store fails, and
 * `put` with `storageFull` if it has no room.
 */
export interface ObjectStore {
  /** Stores the bytes. The object appears when all of them are stored; a stream that fails leaves nothing. Resolves with their number. */
  put(key: string, bytes: Readable, contentType: string): Promise<number>
  /** The bytes, or those of the range; null if there is no such object. The caller reads the stream to its end, or destroys it. */
  get(key: string, range?: ByteRange): Promise<Readable | null>
  /** null if there is no such object. */
  stat(key: string): Promise<StoredObject | null>
  /** false if there is no object `from`. */
  copy(from: string, to: string): Promise<boolean>
  /** Does nothing if there is no such object. */
  delete(key: string): Promise<void>
  /** The objects whose keys begin with the prefix, in pages. */
  list(prefix: string): AsyncIterable<readonly StoredObject[]>
  /** null if the store cannot: the server then signs a request to itself. */
  sign(key: string, signing: Signing): Promise<SignedRequest | null>
  /** Rejects if the store cannot be used. */
  check(): Promise<void>
  close(): Promise<void>
}

const objectKey = /^[A-Za-z0-9_-]{1,64}\/[A-Za-z0-9_-]{1,128}$/

/** Refuses a key that is not `<tenant>/<id>`: keys are made by this package, and become paths of files. */
export function checkKey (key: string): string {
  if (!objectKey.test(key)) throw new TypeError(`"${key}" is no key of an object`)
  return key
}
