/** Offers the tenant's documents, which `app.embeddings` stores, as resources. */
import type * as Sdk from '@modelcontextprotocol/server'
import type { FastifyRequest } from 'fastify'
import { isStorable } from '../../lib/json/storable.js'
import type { DocumentPlace } from '../../lib/vectors/types.js'
import type { Embeddings } from '../embeddings/types.js'
import { invalidCursor } from './page.js'

const prefix = 'tenantry://documents/' // URIs of routes have no host
const cursorMark = '\n' // before the place; cannot occur in the name of a tool
const pageSize = 50

/** The methods of `app.embeddings` that are needed here. */
export type DocumentSource = Pick<Embeddings, 'list' | 'read'>

/** The cursor of the first page of documents. */
export const documentsCursor = encoded(cursorMark)

export const documentTemplate = {
  uriTemplate: `${prefix}{id}`,
  name: 'documents',
  description: 'The text of a document. Neighbouring chunks may overlap.',
  mimeType: 'text/plain'
}

/** Whether the cursor is one of documents. */
export function isOfDocuments (cursor: string): boolean {
  return decodedCursor(cursor).startsWith(cursorMark)
}

/** The documents after the cursor, which holds the place of the last one before it. Throws for an invalid cursor. */
export async function listDocuments (sdk: typeof Sdk, source: DocumentSource, { tenant }: FastifyRequest, cursor: string) {
  const after = cursor === documentsCursor ? undefined : placeIn(sdk, cursor)
  if (tenant === null || tenant === undefined) return { resources: [] }
  const { data } = await source.list(tenant.id, { limit: pageSize + 1, offset: 0, after })
  const page = data.slice(0, pageSize)
  const last = page.at(-1)
  return {
    resources: page.map(({ id, contentType, chunks }) => ({
      uri: prefix + encodeURIComponent(id),
      name: id,
      description: `A document of the type ${contentType} in ${chunks} chunks.`,
      mimeType: 'text/plain'
    })),
    ...data.length > pageSize && last !== undefined && { nextCursor: cursorAfter(last) }
  }
}

/** The text at the URI; undefined if the tenant has no such document. */
export async function readDocument (source: DocumentSource, { tenant }: FastifyRequest, uri: string): Promise<string | undefined> {
  if (tenant === null || tenant === undefined || !uri.startsWith(prefix)) return undefined
  const id = decoded(uri.slice(prefix.length))
  const contents = id === undefined || !isStorable(id) ? null : await source.read(tenant.id, id)
  return contents?.join('\n\n')
}

/** undefined for a text that is not percent-encoded. */
export function decoded (text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function cursorAfter ({ createdAt, id }: DocumentPlace): string {
  return encoded(`${cursorMark}${createdAt.getTime()} ${id}`)
}

function placeIn (sdk: typeof Sdk, cursor: string): DocumentPlace {
  const [, time, id] = /^\n(\d{1,14}) ([^]+)$/.exec(decodedCursor(cursor)) ?? []
  if (time === undefined || id === undefined || !isStorable(id)) throw invalidCursor(sdk)
  return { createdAt: new Date(Number(time)), id }
}

function encoded (text: string): string {
  return Buffer.from(text).toString('base64url')
}

function decodedCursor (cursor: string): string {
  return Buffer.from(cursor, 'base64url').toString()
}
