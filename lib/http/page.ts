/** Pages of built-in lists. */
import type { FastifyRequest } from 'fastify'
import { named, namedAfter } from '../validation/named-schema.js'
import { Type, type TSchema } from 'typebox'

/** Sizes of pages, as in the document's `pagination`. */
export interface Pagination {
  readonly defaultLimit: number
  readonly maxLimit: number
  readonly defaultOffset: number
}

/** A page of a list. */
export interface Page {
  readonly limit: number
  readonly offset: number
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Page sizes of built-in lists; absent without a setting. */
    pagination?: Pagination
  }
}

const defaults: Pagination = { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 }

/** The schema of a query string with a page; `items` are the entries of the list. */
export function pageQuery (items: string, maxOffset: number = Number.MAX_SAFE_INTEGER) {
  return {
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          `${items} per page. Default: \`pagination.defaultLimit\` of the document, 20. A number above \`pagination.maxLimit\`, 100, is reduced to it.`
      })
    ),
    offset: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: maxOffset,
        description: `${items} to skip before the first one of the page. Default: \`pagination.defaultOffset\`, 0.`
      })
    )
  }
}

/** The requested page, within the sizes of the app. */
export function pageOf (
  { query: { limit, offset }, server: { pagination = defaults } }: Pick<FastifyRequest<{ Querystring: Partial<Page> }>, 'query' | 'server'>
): Page {
  return { limit: Math.min(limit ?? pagination.defaultLimit, pagination.maxLimit), offset: offset ?? pagination.defaultOffset }
}

/** The page of a list in memory. */
export function slice<Item> (items: readonly Item[], { limit, offset }: Page): Item[] {
  return items.slice(offset, offset + limit)
}

export const PageInfo = named('Pagination', Type.Object({ limit: Type.Integer(), offset: Type.Integer(), total: Type.Integer() }))

/** The response: a page, and the number of all entries. */
export function ListOf<Item extends TSchema> (item: Item) {
  return namedAfter(item, 'Page', Type.Object({ data: Type.Array(item), pagination: PageInfo }))
}
