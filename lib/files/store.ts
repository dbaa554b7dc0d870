/** The interface of file stores. A store keeps objects: bytes under a key. Names, owners and permissions are in the database. */
import type { Readable } from 'node:stream'

export interface StoredObject {
  readonly key: string
  /** The size in bytes. */
  readonly size: number
  readonly modifiedAt: Date
}

/** The parts of an upload without an object. Its process may still run. */
export interface IncompleteUpload {
  readonly key: string
  readonly startedAt: Date
  /** Deletes the parts. Does nothing if there is no such upload. */
  readonly abort: () => Promise<void>
}

/** A part of an object: its first and last byte, inclusive. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/** An upload or download without a token, at an address outside this server. */
export interface SignedRequest {
  readonly method: 'GET' | 'PUT'
  readonly url: string
  /** The headers that the request must carry. */
  readonly headers: Readonly<Record<string, string>>
}

/** The request that `sign` allows. An upload fixes its size, and the store rejects any other size. */
export type Signing =
  | { readonly method: 'GET', readonly seconds: number, readonly contentType: string, readonly contentDisposition: string }
  | { readonly method: 'PUT', readonly seconds: number, readonly contentType: string, readonly size: number }

/**
 * Objects never change. Every method rejects with `storageUnavailable` if the store fails; `put` with `storageFull` if it is full, and with
 * `uploadsBusy` if too many uploads of the tenant are in memory.
 */
export interface ObjectStore {
  /**
   * Stores the bytes and resolves with their number. The object appears when all bytes are stored; a failed stream leaves nothing.
   * `hasToken`: false for the upload of a caller without a token, which takes no memory from uploads of the tenant's own callers.
   */
  put(key: string, bytes: Readable, contentType: string, hasToken?: boolean): Promise<number>
  /** The bytes, or the range's bytes; null if there is no such object. The caller must read the stream to its end, or destroy it. */
  get(key: string, range?: ByteRange): Promise<Readable | null>
  /** null if there is no such object. */
  stat(key: string): Promise<StoredObject | null>
  /** false if the object `from` does not exist. */
  copy(from: string, to: string): Promise<boolean>
  /** Does nothing if there is no such object. */
  delete(key: string): Promise<void>
  /** The objects whose keys begin with the prefix, in pages. */
  list(prefix: string): AsyncIterable<readonly StoredObject[]>
  /** null if the store does not support it: the server then signs a request to itself. */
  sign(key: string, signing: Signing): Promise<SignedRequest | null>
  /** Rejects if the store is not usable. */
  check(): Promise<void>
  close(): Promise<void>
}

export interface StoreLog {
  warn(details: object, text: string): void
}

const objectKey = /^[A-Za-z0-9_-]{1,64}\/[A-Za-z0-9_-]{1,128}$/
const objectName = /^[A-Za-z0-9_-]{1,128}$/

/** Rejects a key that is not `<tenant>/<id>`. Only this package creates keys, and they become file paths. */
export function checkKey (key: string): string {
  if (!objectKey.test(key)) throw new TypeError(`"${key}" is not a valid key of an object`)
  return key
}

/** Whether the name can follow `<tenant>/` in a key. */
export function isObjectName (name: string): boolean {
  return objectName.test(name)
}
