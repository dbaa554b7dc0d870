/** The `Location` of a created record: the path of another route of the document that reads it. */
import * as jsonc from 'jsonc-parser'
import { tenantColumn } from '../database/catalogue.js'
import { isRecord } from '../json/plain-value.js'
import type { RouteQuery } from '../queries/compiled-query.js'
import type { Route } from '../schema/route.js'
import type { CompiledResponse } from './response.js'
import { methodOf, pathParameters } from './route-parts.js'

const maxScanned = 1_048_576 // characters of a record that are searched for its key
const maxKeyLength = 2048 // characters, the limit of a path parameter

/** A path with one parameter that reads one row by its key. */
export interface RowPath {
  readonly before: string
  readonly after: string
  /** The column that the parameter is compared with; null for the primary key of any column. */
  readonly column: string | null
}

/** The paths of a table, or of a collection: the first path for each column, in order. Paths that need permissions come last. */
interface TablePaths {
  readonly all: RowPath[]
  /** The paths that end with their parameter, by the text before it. */
  readonly endingAt: Map<string, RowPath[]>
}

/** By table (or `documents:` and the collection). */
export type RowPaths = ReadonlyMap<string, TablePaths>

/** The path that reads the records of a route. */
export interface RecordLocation extends Pick<RowPath, 'before' | 'after'> {
  /** The member of a record that holds its key. */
  readonly member: string
}

export function rowPathsOf (routes: readonly Route[]): RowPaths {
  const paths = new Map<string, TablePaths>()
  const isGuarded = ({ requiredPermissions = [] }: Route) => requiredPermissions.length > 0
  for (const route of [...routes.filter((route) => !isGuarded(route)), ...routes.filter(isGuarded)]) {
    const [name, ...others] = pathParameters(route.path)
    const read = name === undefined || others.length > 0 ? undefined : readOf(route, name)
    if (read === undefined) continue
    const [before = '', after = ''] = route.path.split(`:${name}`)
    const path = { before, after, column: read.column }
    const { all, endingAt } = valueAt(paths, read.of, () => ({ all: [], endingAt: new Map() }))
    addFirst(all, path)
    if (after === '') addFirst(valueAt(endingAt, before, () => []), path)
  }
  return paths
}

function addFirst (paths: RowPath[], path: RowPath): void {
  if (!paths.some(({ column }) => column === path.column)) paths.push(path)
}

function valueAt<Value> (map: Map<string, Value>, key: string, make: () => Value): Value {
  const known = map.get(key) ?? make()
  map.set(key, known)
  return known
}

/** The paths that may read the route's record, the best first; empty if the route creates no records. */
export function candidatesFor (route: Route, paths: RowPaths): readonly RowPath[] {
  const created = createdBy(route)
  const found = created === undefined ? undefined : paths.get(created)
  if (found === undefined) return []
  return [...found.endingAt.get(`${route.path}/`) ?? [], ...found.all]
}

/** null if no path reads the record, or if the route's response omits its key. */
export function compileLocation (
  route: Route,
  [query, ...others]: readonly RouteQuery[],
  response: CompiledResponse | null,
  paths: RowPaths
): RecordLocation | null {
  const candidates = candidatesFor(route, paths)
  if (candidates.length === 0 || query === undefined || others.length > 0) return null
  const { rowKey } = query
  if (rowKey === null || !shows(response, rowKey.member)) return null
  const path = candidates.find(({ column }) => column === null || column === rowKey.column)
  return path === undefined ? null : Object.freeze({ before: path.before, after: path.after, member: rowKey.member })
}

/** The path of a record; undefined if the record omits its key, for example because the caller may not see it. */
export function locationOf ({ before, after, member }: RecordLocation, record: string): string | undefined {
  const key = memberOf(record, member)
  // URL parsers resolve dot segments.
  if (key === undefined || key === '' || key === '.' || key === '..' || key.length > maxKeyLength) return undefined
  return before + encodeURIComponent(key) + after
}

function readOf (
  { method, webhook, workflow, queries = [], firebaseQueries = [] }: Route,
  parameter: string
): { of: string, column: string | null } | undefined {
  if (
    methodOf({ method }) !== 'GET' || webhook !== undefined || workflow !== undefined || queries.length + firebaseQueries.length !== 1
  ) { return undefined }
  const isParameter = (value: unknown) => typeof value === 'string' && value.replace(/\s/g, '') === `{{params.${parameter}}}`
  const [query] = queries
  const [document] = firebaseQueries
  if (document !== undefined) {
    return document.operation === 'get' && isParameter(document.docId)
      ? { of: `documents:${document.collection}`, column: null }
      : undefined
  }
  if (query?.table === undefined || query.operation !== 'select') return undefined
  // A query on a tenant-scoped table reads only the tenant's rows, so a filter on the tenant changes nothing.
  const filters = (query.filters ?? []).filter((filter) => !('column' in filter) || filter.column !== tenantColumn)
  if (query.id !== undefined) return isParameter(query.id) && filters.length === 0 ? { of: query.table, column: null } : undefined
  const [filter] = filters
  if (query.single !== true || filter === undefined || filters.length > 1 || !('column' in filter)) return undefined
  return (filter.operator ?? 'eq') === 'eq' && isParameter(filter.value) ? { of: query.table, column: filter.column } : undefined
}

function createdBy ({ webhook, queries = [], firebaseQueries = [] }: Route): string | undefined {
  const [query, ...others] = [...queries, ...firebaseQueries]
  if (webhook !== undefined || query === undefined || others.length > 0) return undefined
  if ('collection' in query) return query.operation === 'create' || query.operation === 'add' ? `documents:${query.collection}` : undefined
  return query.operation === 'insert' && 'table' in query ? query.table : undefined
}

/** A mapping may omit the key on purpose. */
function shows (response: CompiledResponse | null, member: string): boolean {
  if (response === null) return true
  return response.kind === 'schema' && isRecord(response.schema['properties']) && Object.hasOwn(response.schema['properties'], member)
}

/** A string or number of the record, with every digit. Most records begin with their key, so the search is short. */
function memberOf (record: string, name: string): string | undefined {
  const text = record.length > maxScanned ? record.slice(0, maxScanned) : record
  const scanner = jsonc.createScanner(text, true)
  const next = () => {
    scanner.scan()
    return text.slice(scanner.getTokenOffset(), scanner.getTokenOffset() + scanner.getTokenLength())
  }
  let depth = 0
  for (let token = next(); token !== ''; token = next()) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (depth === 1 && token.startsWith('"') && scanner.getTokenValue() === name && next() === ':') {
      const isKey = /^["\d-]/.test(next())
      const value = scanner.getTokenValue()
      const end = next()
      return isKey && (end === ',' || end === '}') ? value : undefined
    }
  }
  return undefined
}
