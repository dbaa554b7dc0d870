/** The parameters of built-in lists: pages, `search`, `from` and `to`. */
import type { FastifyRequest } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { isCalendarDay } from '../json/typed-values.js'
import { Optional } from '../schema/annotations.js'
import { dayMs } from '../time/spans.js'
import { invalidInput } from '../validation/detail.js'
import { named, namedAfter } from '../validation/named-schema.js'

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
    limit: Optional.Integer(
      `${items} per page. Default: \`pagination.defaultLimit\` of the document, 20. A number above \`pagination.maxLimit\`, 100, is reduced to it.`,
      { minimum: 1 }
    ),
    offset: Optional.Integer(
      `${items} to skip before the first one of the page. Default: \`pagination.defaultOffset\`, 0.`,
      { minimum: 0, maximum: maxOffset }
    )
  }
}

/** The requested page, within the sizes of the app. */
export function pageOf (
  { query: { limit, offset }, server: { pagination = defaults } }: Pick<FastifyRequest<{ Querystring: Partial<Page> }>, 'query' | 'server'>
): Page {
  return { limit: Math.min(limit ?? pagination.defaultLimit, pagination.maxLimit), offset: offset ?? pagination.defaultOffset }
}

/** The response for a list in memory. */
export function pageIn<Item> (items: readonly Item[], page: Page) {
  return { data: items.slice(page.offset, page.offset + page.limit), pagination: { ...page, total: items.length } }
}

/** The response for a list that `read` reads a page of, with the number of all entries. */
export async function readPage<Item> (
  request: Parameters<typeof pageOf>[0],
  read: (page: Page) => Promise<{ readonly data: readonly Item[], readonly total: number }>
) {
  const page = pageOf(request)
  const { data, total } = await read(page)
  return { data, pagination: { ...page, total } }
}

export const PageInfo = named('Pagination', Type.Object({ limit: Type.Integer(), offset: Type.Integer(), total: Type.Integer() }))

/** The response: a page, and the number of all entries. */
export function ListOf<Item extends TSchema> (item: Item) {
  return namedAfter(item, 'Page', Type.Object({ data: Type.Array(item), pagination: PageInfo }))
}

const maxLength = 200 // characters

/** The member of a query string; `names` describes the searched names. */
export function searchQuery (names: string) {
  return {
    search: Optional.String(
      `Text that ${names} of the listed entries must contain, ignoring case.`,
      { minLength: 1, maxLength, pattern: '^[^\\u0000]*$' }
    )
  }
}

/** Whether one of the names contains the text; true without a text. For lists in memory. */
export function isFound (search: string | undefined, ...names: readonly string[]): boolean {
  if (search === undefined) return true
  const sought = search.toLowerCase()
  return names.some((name) => name.toLowerCase().includes(sought))
}

const lastTime = Date.parse('9999-12-31T23:59:59.999Z') // beyond it, and before the year 1, PostgreSQL cannot read JavaScript's dates
const datePattern = /^\d{4}-\d{2}-\d{2}$/
const dateTimePattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i

/** A member of a query string that `timeOf` or `endOf` reads. */
export function timeQuery (description: string) {
  return Optional.String(description, { maxLength: 64, examples: ['2026-01-31', '2026-01-31T12:00:00Z'] })
}

/** The time of a text in milliseconds, not before 1970; a date is the beginning of that UTC day. Throws `validationFailed`. */
export function timeOf (text: string, path: string): number {
  if (datePattern.test(text) || dateTimePattern.test(text)) {
    const time = Date.parse(text)
    if (isCalendarDay(text.slice(0, 10)) && !Number.isNaN(time)) return Math.min(Math.max(time, 0), lastTime)
  }
  throw invalidInput(path, 'must be a date such as 2026-01-31, or a date and time with its zone such as 2026-01-31T12:00:00Z', 'format')
}

/** The exclusive end of a time range: a date includes the whole day. Throws `validationFailed`. */
export function endOf (text: string, path: string): number {
  return Math.min(timeOf(text, path) + (datePattern.test(text) ? dayMs : 0), lastTime)
}
