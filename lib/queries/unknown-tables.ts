/** Checks queries on unknown tables and functions. Their texts are still compiled, so that faults in them are found. */
import type { Catalogue } from '../database/catalogue.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import { isRecord } from '../json/plain-value.js'
import { nearest, pointerTo } from '../schema/faults.js'
import type { Filter, Query } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { compileConditions } from './filter.js'
import { compileFilterValue } from './filter-value.js'
import { declaredFunction, missingFunction, unknownArgument } from './function.js'
import { compileFrom } from './order.js'
import { compileCount, compilePage } from './page.js'

const embed = /([A-Za-z_]\w*)\s*(?:![A-Za-z_]\w*\s*)*\(/g

/** The parts of a query, or of a step, that name tables. */
export interface QueriedTables {
  readonly table?: string | undefined
  readonly select?: string | undefined
}

/** The tables of a query, including embedded ones, that are missing in a partial catalogue. */
export function unknownTables ({ table, select = '' }: QueriedTables, { tables, partial }: Catalogue): string[] {
  if (partial !== true || table === undefined) return []
  const names = [table, ...[...select.matchAll(embed)].map(([, name = '']) => name)]
  return names.filter((name, index) => !tables.has(name) && names.indexOf(name) === index)
}

/** Adds the faults of the texts that the operation uses. Values are compiled without the type of their column. */
export function checkQueryTexts (query: Query, pointer: string, context: QueryContext): void {
  const { operation, id, single, filters, data, embeds } = query
  if (operation === 'call') {
    if (query.single !== true) compilePage(query, pointer, context)
    checkMemberValues(query.arguments ?? {}, pointerTo(pointer, 'arguments'), context)
    return checkDeclared(query, pointer, context)
  }
  if (id !== undefined) checkMemberValues(id, pointerTo(pointer, 'id'), context)
  if (operation !== 'insert') checkFilters(filters ?? [], operation, pointerTo(pointer, 'filters'), context)
  if (operation === 'select') checkEmbeds(embeds, pointerTo(pointer, 'embeds'), context)
  if (operation === 'select' && id === undefined && single !== true) compilePage(query, pointer, context)
  if (operation === 'select' && query.orderBy !== undefined) compileFrom(query.orderBy.from, pointerTo(pointer, 'orderBy', 'from'), context)
  if (operation !== 'select' && operation !== 'delete' && data !== undefined) checkMemberValues(data, pointerTo(pointer, 'data'), context)
}

/** Checks a call against the function's declaration in the document. The database is not available here. */
function checkDeclared ({ function: name, arguments: given = {} }: Query, pointer: string, context: QueryContext): void {
  if (name === undefined) return context.faults.add(pointer, missingFunction)
  if (context.functions === undefined) return
  const declared = declaredFunction(name, pointerTo(pointer, 'function'), context)
  if (declared === undefined) return
  const known = Object.keys(declared.arguments ?? {}).filter((argument) => argument !== declared.tenantArgument)
  for (const argument of Object.keys(given)) {
    if (!known.includes(argument)) {
      context.faults.add(pointerTo(pointer, 'arguments', argument), unknownArgument(argument), nearest(argument, known))
    }
  }
}

function checkEmbeds (embeds: Query['embeds'], pointer: string, context: QueryContext): void {
  for (const [name, { filters, limit, embeds: nested }] of Object.entries(embeds ?? {})) {
    checkFilters(filters ?? [], 'select', pointerTo(pointer, name, 'filters'), context)
    compileCount(limit, pointerTo(pointer, name, 'limit'), context)
    checkEmbeds(nested, pointerTo(pointer, name, 'embeds'), context)
  }
}

function checkFilters (filters: readonly Filter[], operation: Query['operation'], pointer: string, context: QueryContext): void {
  compileConditions(filters, pointer, context, (filter, at) => {
    // The filters of an upsert are values of its row.
    if (operation === 'upsert') compileValue(filter.value, pointerTo(at, 'value'), context)
    else compileFilterValue(filter, at, context)
    return undefined
  })
}

function checkMemberValues (value: unknown, pointer: string, context: TemplateContext): void {
  if (!isRecord(value)) compileValue(value, pointer, context)
  else for (const [name, member] of Object.entries(value)) compileValue(member, pointerTo(pointer, name), context)
}
