/** Limits of one route of a tenant's document, so that it does not burden other tenants. The route's size is limited elsewhere. */
import { ConfigError, FaultList, pointerTo } from '../schema/faults.js'
import type { Embed, Query } from '../schema/query.js'
import type { Field, Route } from '../schema/route.js'
import type { Step } from '../schema/workflow.js'
import { allFilters } from './filter-value.js'
import { parseSelect, type SelectItem, SelectSyntaxError } from './select-parser.js'

const maxQueries = 20 // on tables and documents together
const maxFilters = 100 // per query, including groups and their members
const maxRouteFilters = 300 // per route
const maxListed = 1000 // constants in one filter
const maxSelectLength = 2000 // characters
const maxEmbeds = 10 // per query, at any depth
const maxRouteEmbeds = 30 // per route
const maxSelected = 100 // columns and embeds per query, at any depth
const maxSame = 2 // members of a record with the same value
const maxPaths = 20 // members of a record with values of the same JSON column
const maxOrder = 20 // keys per query
const maxComputed = 100 // fields per transform
const maxExpression = 2000 // characters
const maxExpressions = 3000 // characters of all expressions: about 20 ms
const maxFields = 500 // in all parts of a request, including nested ones
const maxUrlFields = 50 // in the query string
const maxEnum = 1000 // values in all enums
const maxNames = 200 // per list of names: excludeFields of a query, varyBy, onConflict

/** Adds a fault for each limit that a route exceeds; returns false in that case, because compiling the route would cost too much. */
export function checkBounds (route: Route, pointer: string, faults: FaultList): boolean {
  const before = faults.faults.length
  const bound = boundIn(faults)
  checkQueries(route, pointer, bound)
  checkRequest(route, pointer, bound)
  checkTransform(route, pointer, bound)
  const conditions = (route.integrations ?? []).flatMap(({ condition }) => condition ?? [])
  checkExpressions(conditions, `${pointer}/integrations`, 'conditions of integrations', bound)
  bound(`${pointer}/cache/varyBy`, route.cache?.varyBy?.length ?? 0, maxNames, 'too many names in the list:')
  return faults.faults.length === before
}

const maxDatabaseSteps = 50 // per workflow

/** The same for the steps of a workflow. The limits per route apply to the filters and embeds of all steps together. */
export function checkStepBounds (steps: readonly Step[], pointer: string, faults: FaultList): boolean {
  const before = faults.faults.length
  const bound = boundIn(faults)
  const counts = { filters: 0, embeds: 0 }
  let queries = 0
  let expressions = 0
  const visit = (step: Step, at: string): void => {
    for (const text of [step.condition, step.value]) {
      bound(at, text?.length ?? 0, maxExpression, 'too many characters in an expression:')
      expressions += text?.length ?? 0
    }
    if (step.type === 'database' || step.table !== undefined) {
      queries++
      checkTableQuery(step, at, bound, counts)
    }
    for (const [index, inner] of (step.parallel ?? []).entries()) visit(inner, pointerTo(at, 'parallel', index))
  }
  for (const [index, step] of steps.entries()) visit(step, pointerTo(pointer, index))
  bound(pointer, queries, maxDatabaseSteps, "too many steps of the type `database` in a tenant's workflow:")
  bound(pointer, counts.filters, maxRouteFilters, "too many filters in a tenant's workflow:")
  bound(pointer, counts.embeds, maxRouteEmbeds, "too many embedded tables in a tenant's workflow:")
  bound(pointer, expressions, maxExpressions, 'too many characters in the expressions of a workflow:')
  return faults.faults.length === before
}

/** The maximum faults of one route, because suggesting names takes time. */
const maxFaults = 50

/** Compiles with a separate list that stops the work when full; the result is then null. Its faults go to the given list at the end. */
export function withBoundedFaults<Result> (faults: FaultList, compile: (faults: FaultList) => Result): Result | null {
  const list = new FaultList(maxFaults)
  let result: Result | null = null
  try {
    result = compile(list)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
  faults.take(list.faults)
  return result
}

type Bound = (at: string, count: number, most: number, excess: string) => void

/** Adds a fault for a count above its maximum. */
function boundIn (faults: FaultList): Bound {
  return (at, count, most, excess) => {
    if (count > most) faults.add(at, `${excess} at most ${most}, got ${count}`)
  }
}

function checkQueries ({ queries = [], firebaseQueries = [] }: Route, pointer: string, bound: Bound): void {
  bound(pointer, queries.length + firebaseQueries.length, maxQueries, "too many queries in a tenant's route:")
  const counts = { filters: 0, embeds: 0 }
  for (const [index, query] of queries.entries()) checkTableQuery(query, pointerTo(pointer, 'queries', index), bound, counts)
  for (const [index, query] of firebaseQueries.entries()) checkQuery(query, pointerTo(pointer, 'firebaseQueries', index), bound, counts)
  bound(pointer, counts.filters, maxRouteFilters, "too many filters in a tenant's route:")
  bound(pointer, counts.embeds, maxRouteEmbeds, "too many embedded tables in a tenant's route:")
}

function checkTableQuery (query: BoundedQuery, at: string, bound: Bound, counts: { filters: number, embeds: number }): void {
  checkQuery(query, at, bound, counts)
  const { select, onConflict } = query
  bound(`${at}/select`, select?.length ?? 0, maxSelectLength, 'too many characters in a `select`:')
  const { items, same, paths, embeds } = countsOf((select?.length ?? 0) > maxSelectLength ? undefined : select)
  counts.embeds += embeds
  bound(`${at}/select`, items, maxSelected, "too many columns and tables in a tenant's `select`:")
  bound(`${at}/select`, same, maxSame, "too many names for one column in a tenant's `select`:")
  bound(`${at}/select`, paths, maxPaths, "too many paths in one column in a tenant's `select`:")
  bound(`${at}/select`, embeds, maxEmbeds, 'too many embedded tables in a `select`:')
  bound(`${at}/onConflict`, onConflict?.length ?? 0, maxNames, 'too many names in the list:')
}

/** The bounded parts of a query, of a document query, and of a step. */
type BoundedQuery = Pick<Query, 'filters' | 'order' | 'excludeFields' | 'embeds' | 'select' | 'onConflict'>

function checkQuery (
  { filters, order, excludeFields, embeds }: BoundedQuery,
  pointer: string,
  bound: Bound,
  counts: { filters: number }
): void {
  const ofEmbeds = embedsOf(embeds, pointer)
  bound(`${pointer}/embeds`, ofEmbeds.length, maxEmbeds, 'too many `embeds` in a query:')
  for (const { embed, at } of ofEmbeds) {
    bound(`${at}/order`, Array.isArray(embed.order) ? embed.order.length : 0, maxOrder, 'too many keys in an order:')
  }
  const all = [...filters ?? [], ...ofEmbeds.flatMap(({ embed }) => embed.filters ?? [])].flatMap(allFilters)
  counts.filters += all.length
  bound(`${pointer}/filters`, all.length, maxFilters, 'too many filters in a query:')
  for (const filter of all) {
    if ('column' in filter && Array.isArray(filter.value)) {
      bound(`${pointer}/filters`, filter.value.length, maxListed, 'too many values in a filter:')
    } else if ('column' in filter && typeof filter.value === 'string' && filter.operator === 'in') {
      bound(`${pointer}/filters`, filter.value.split(',').length, maxListed, 'too many values in a filter:')
    }
  }
  bound(`${pointer}/order`, Array.isArray(order) ? order.length : 0, maxOrder, 'too many keys in an order:')
  bound(`${pointer}/excludeFields`, excludeFields?.length ?? 0, maxNames, 'too many names in the list:')
}

/** Includes nested embeds. */
function embedsOf (embeds: Query['embeds'], pointer: string): { embed: Embed, at: string }[] {
  return Object.entries(embeds ?? {}).flatMap(([name, embed]) => {
    const at = pointerTo(pointer, 'embeds', name)
    return [{ embed, at }, ...embedsOf(embed.embeds, at)]
  })
}

/** The maximum within one record: `same` are members with the same value, and `paths` those in the same column. */
function countsOf (select: string | undefined) {
  const counts = { items: 0, same: 0, paths: 0, embeds: 0 }
  const count = (items: readonly SelectItem[]): void => {
    const names = new Map<string, Set<string>>()
    const paths = new Map<string, number>()
    const everyColumn = items.some(({ name, aggregate }) => name === '*' && aggregate === undefined)
    for (const { name, alias, path, aggregate, items: embedded } of items) {
      counts.items++
      if (embedded !== undefined) {
        counts.embeds++
        count(embedded)
      } else if (name !== '*' || aggregate !== undefined) {
        const value = JSON.stringify([name, path, aggregate])
        const isColumn = path === undefined && aggregate === undefined
        const known = names.get(value) ?? new Set(everyColumn && isColumn ? [name] : [])
        names.set(value, known.add(alias ?? name))
        counts.same = Math.max(counts.same, known.size)
        if (path !== undefined) paths.set(name, (paths.get(name) ?? 0) + 1)
        counts.paths = Math.max(counts.paths, ...paths.values())
      }
    }
  }
  try {
    if (select !== undefined) count(parseSelect(select))
  } catch (error) {
    if (!(error instanceof SelectSyntaxError)) throw error
  }
  return counts
}

function checkRequest ({ request }: Route, pointer: string, bound: Bound): void {
  const counts = { fields: 0, values: 0 }
  const visit = (field: Field): void => {
    counts.fields++
    counts.values += field.enum?.length ?? 0
    if (field.items !== undefined) visit(field.items)
    for (const member of Object.values(field.properties ?? {})) visit(member)
  }
  for (const part of [request?.params, request?.query, request?.body]) for (const field of Object.values(part ?? {})) visit(field)
  bound(`${pointer}/request`, counts.fields, maxFields, "too many fields in the request of a tenant's route:")
  bound(
    `${pointer}/request/query`,
    Object.keys(request?.query ?? {}).length,
    maxUrlFields,
    "too many fields in the query string of a tenant's route:"
  )
  bound(`${pointer}/request`, counts.values, maxEnum, "too many values in the enums of a tenant's route:")
}

function checkTransform ({ transform }: Route, pointer: string, bound: Bound): void {
  const maps = [transform?.fields, ...(transform?.operations ?? []).map(({ fields }) => fields)]
  const texts = maps.flatMap((fields) => Object.values(fields ?? {}))
  bound(`${pointer}/transform`, texts.length, maxComputed, 'too many fields in a transform:')
  checkExpressions(texts, `${pointer}/transform`, 'expressions of a transform', bound)
}

function checkExpressions (texts: readonly string[], at: string, part: string, bound: Bound): void {
  for (const text of texts) bound(at, text.length, maxExpression, 'too many characters in an expression:')
  bound(at, texts.join('').length, maxExpressions, `too many characters in the ${part}:`)
}
