/** Paths in Firestore. Every query names the path of its tenant, `tenants/{tenant}`, and no name from outside can add a segment. */
import { isTenantId, type Owner, platformRef } from '../identity/tenant-ref.js'
import { isStorable } from '../json/storable.js'

/** The collection at the root whose documents are the tenants. */
export const tenantsCollection = 'tenants'

/** The id for documents of the platform. No tenant's id equals it or begins like it. */
const platformId = '~'

const maxBytes = 1500 // of a segment, Firestore's limit
const maxLength = 512 // characters, as in the SQL database

/** The rule of a segment, for messages. */
export const pathSegmentRule =
  `has 1 to ${maxLength} characters and at most 1,500 bytes, contains no \`/\`, and is neither \`.\` nor \`..\` nor of the form \`__name__\``

export interface CollectionPlace {
  /** `tenants/acme/notes`, or `countries` for a collection of the platform. */
  readonly path: string
  /** Operations count as this tenant's. */
  readonly owner: Owner
  /** `tenants/acme`: references are relative to it. */
  readonly root: string
}

/** Whether Firestore accepts the text as the name of a collection or the id of a document. */
export function isPathSegment (text: string): boolean {
  return text !== '' && text.length <= maxLength && text !== '.' && text !== '..' && !text.includes('/') && !isReserved(text) &&
    isStorable(text) && Buffer.byteLength(text) <= maxBytes
}

/** Names of this form are Firestore's own: of collections, documents and fields. */
export function isReserved (name: string): boolean {
  return name.length >= 4 && name.startsWith('__') && name.endsWith('__')
}

/** `tenants/acme`. Throws for an invalid id of a tenant. */
export function rootOf (owner: Owner): string {
  if (owner === platformRef) return `${tenantsCollection}/${platformId}`
  if (!isTenantId(owner)) throw new Error('not a valid tenant id')
  return `${tenantsCollection}/${isReserved(owner) ? platformId : ''}${owner}`
}

/** The place of a collection of the tenant, or with `shared` of the platform. */
export function placeOf (owner: Owner, collection: string, shared: boolean): CollectionPlace {
  if (!isPathSegment(collection)) throw new Error('not a valid collection name')
  const root = rootOf(owner)
  return { owner, path: shared ? collection : `${root}/${collection}`, root }
}

/** The path of a document. Throws for an invalid id. */
export function documentPath ({ path }: CollectionPlace, id: string): string {
  if (!isPathSegment(id)) throw new Error('not a valid document id')
  return `${path}/${id}`
}
