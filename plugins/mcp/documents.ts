/** Offers the tenant's documents, which `app.embeddings` stores, as resources. */
import type { FastifyRequest } from 'fastify'
import { isStorable } from '../../lib/json/storable.js'
import type { Embeddings } from '../embeddings/types.js'

const prefix = 'tenantry://documents/' // URIs of routes have no host
const cursorMark = '\n' // before the offset; cannot occur in the name of a tool
const pageSize = 50

/** The methods of `app.embeddings` that are needed here. */
export type DocumentSource = Pick<Embeddings, 'list' | 'read'>

/** The cursor of the first page of documents. */
export const documentsCursor = cursorAt(0)

export const documentTemplate = {
  uriTemplate: `${prefix}{id}`,
  name: 'documents',
  description: 'The text of a document. Neighbouring chunks may overlap.',
  mimeType: 'text/plain'
}

/** The offset in the documents that a cursor holds; undefined for a cursor of another list. */
export function offsetOf (cursor: string | undefined): number | undefined {
  const [, offset] = /^\n(\d{1,9})$/.exec(Buffer.from(cursor ?? '', 'base64url').toString()) ?? []
  return offset === undefined ? undefined : Number(offset)
}

export async function listDocuments (source: DocumentSource, { tenant }: FastifyRequest, offset: number) {
  if (tenant === null || tenant === undefined) return { resources: [] }
  const { data, total } = await source.list(tenant.id, { limit: pageSize, offset })
  const end = offset + data.length
  return {
    resources: data.map(({ id, contentType, chunks }) => ({
      uri: prefix + encodeURIComponent(id),
      name: id,
      description: `A document of the type ${contentType} in ${chunks} chunks.`,
      mimeType: 'text/plain'
    })),
    ...data.length > 0 && end < total && { nextCursor: cursorAt(end) }
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

function cursorAt (offset: number): string {
  return Buffer.from(`${cursorMark}${offset}`).toString('base64url')
}
