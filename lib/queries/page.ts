/** The requested part of a list: limit and offset, or a cursor. */
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'
import type { Reference, Scope } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Query } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import type { QueryContext } from './context.js'
import { requestPath } from './request-value.js'
import { type Bound, compileVariants, type Draft, type Switch } from './sql.js'

/**
 * Page sizes with a statement of their own for the start of the list; the list's own size has one for later pages too. PostgreSQL
 * plans a statement with a placeholder as `limit` each time, because it cannot estimate the number of rows. Planning costs as
 * much as reading a page. More sizes would use up the variants of a query (`maxVariants`).
 */
const usualLimits = [10, 20, 25, 50, 100]

export interface Page {
  readonly limit: (scope: Scope) => number
  readonly offset: (scope: Scope) => number
  readonly references: readonly Reference[]
  /** The limit, if it is part of the text: the list's own limit, or a usual one at the start of the list. */
  readonly literal: (scope: Scope) => number | undefined
  /** The limit, if it is the list's own or a usual one. */
  readonly usual: (scope: Scope) => number | undefined
  /** The list is read from its start, with a limit that is part of the text. */
  readonly starts: Switch
}

interface PageSql {
  /** ` limit ... offset ...` */
  readonly clause: string
  /** `{"data":[...],"pagination":{...}}` of the records. `count`: the total's SQL; it runs only if the page does not give the total. */
  readonly body: (records: string, count: string) => string
}

/** The variants of a page's statement, with a text for each usual limit. */
export function compilePages (
  origin: QueryContext['origin'],
  switches: readonly Switch[],
  page: Page,
  write: (literal: number | undefined, draft: Draft) => string
): (scope: Scope) => Bound {
  return compileVariants(
    { origin, isRead: true },
    [...switches, page.starts],
    (draft, literal) => write(literal, draft),
    { choose: page.literal, keyOf: String }
  )
}

/** The limit and offset of a list: from the query string if the list accepts them, else from the query, else from the document. */
export function compilePage (query: Pick<Query, 'limit' | 'offset'>, pointer: string, context: QueryContext): Page {
  const { callerPages = false, pagination: { defaultLimit, maxLimit, defaultOffset } } = context
  const ofCaller = callerPages ? given : () => undefined
  // The response shows both values.
  const within: QueryContext = { ...context, secretsRefusedIn: 'a `limit` or an `offset`' }
  const limit = compileCount(query.limit, pointerTo(pointer, 'limit'), within)
  const offset = compileCount(query.offset, pointerTo(pointer, 'offset'), within)
  const readLimit = (scope: Scope): number => Math.min(ofCaller(scope, 'limit') ?? limit.read(scope) ?? defaultLimit, maxLimit)
  const readOffset = (scope: Scope): number => ofCaller(scope, 'offset') ?? offset.read(scope) ?? defaultOffset
  const own = Math.min(typeof query.limit === 'number' ? query.limit : defaultLimit, maxLimit)
  const literals = new Set([...usualLimits, own])
  const starts = (scope: Scope): boolean => readOffset(scope) === 0 && literals.has(readLimit(scope))
  return {
    limit: readLimit,
    offset: readOffset,
    references: [...limit.references, ...offset.references],
    literal: (scope) => {
      const asked = readLimit(scope)
      return asked === own || starts(scope) ? asked : undefined
    },
    usual: (scope) => {
      const asked = readLimit(scope)
      return asked > 0 && literals.has(asked) ? asked : undefined
    },
    starts
  }
}

/** Writes the page: its limit as a literal or a placeholder, and the offset unless the page starts the list. */
export function writePagination (page: Page, literal: number | undefined, draft: Draft): PageSql {
  if (literal !== undefined && draft.has(page.starts)) {
    return {
      clause: ` limit ${literal}`,
      body: (records, count) =>
        `concat('{"data":', ${records}, ',"pagination":{"limit":${literal},"offset":0,"total":', ` +
        `case when count(*) < ${literal} then count(*) else (${count}) end, '}}')`
    }
  }
  const limit = literal ?? draft.add(page.limit, 'bigint')
  const offset = draft.add(page.offset, 'bigint')
  return {
    clause: ` limit ${limit} offset ${offset}`,
    // Past the end, the page has no row to derive the total from.
    body: (records, count) =>
      `concat('{"data":', ${records}, ',"pagination":{"limit":', ${limit}, ',"offset":', ${offset}, ',"total":', ` +
      `case when count(*) < ${limit} and (count(*) > 0 or ${offset} = 0) then ${offset} + count(*) else (${count}) end, '}}')`
  }
}

interface Count {
  readonly read: (scope: Scope) => number | undefined
  readonly references: readonly Reference[]
}

/** A number of rows: constant, or from a template. */
export function compileCount (configured: number | string | undefined, pointer: string, context: QueryContext): Count {
  if (configured === undefined) return { read: () => undefined, references: [] }
  const before = context.faults.faults.length
  const value = compileValue(configured, pointer, context)
  if (context.faults.faults.length > before) return { read: () => undefined, references: [] }
  if (!value.constant) return { read: (scope) => countOf(value.evaluate(scope), requestPath(value, pointer)), references: value.references }
  const constant = asCount(value.evaluate(noScope))
  if (constant === undefined) context.faults.add(pointer, 'expected a whole number of at least 0, or a template that returns one')
  return { read: () => constant, references: [] }
}

function given (scope: Scope, name: 'limit' | 'offset'): number | undefined {
  return Object.hasOwn(scope.query, name) ? countOf(scope.query[name], `/query/${name}`) : undefined
}

function countOf (value: unknown, path: string): number | undefined {
  if (value === undefined || value === null) return undefined
  const count = asCount(value)
  if (count === undefined) throw invalidInput(path, 'must be a whole number of at least 0', 'type')
  return count
}

function asCount (value: unknown): number | undefined {
  const count = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 ? count : undefined
}
