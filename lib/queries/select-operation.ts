/** `select`: a page, or one record. */
import type { Reference, ResultKind, Scope } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import { compileCursorPages } from './cursor-pages.js'
import { embedLimitOf } from './embed.js'
import { compileGroupOrder } from './groups.js'
import type { CompiledOperation } from './operation.js'
import { compileOrders, type RowOrder } from './order.js'
import { compilePage } from './page.js'
import { type GroupParts, type ReadParts, writeGroup, writeGroupPage, writePage, writeRecord } from './read.js'
import { isOneRow } from './row-key.js'
import { compileVariants, numberChooser } from './sql.js'
import type { Subject } from './subject.js'

/** Compiles the operation; undefined after faults. */
export function compileSelect (subject: Subject): CompiledOperation | undefined {
  if (subject.full.grouped === true) return compileGroups(subject)
  const { query, table, pointer, context, full, selection, accessSwitches, filters, embedUses } = subject
  const before = context.faults.faults.length
  const orders = compileOrders(query, table, pointer, context)
  const page = compilePage(query, pointer, context)
  const cursors = query.pagination === 'cursor' ? compileCursorPages(subject, orders, page, pointerTo(pointer, 'pagination')) : undefined
  if (context.faults.faults.length > before) return undefined
  const parts: ReadParts = {
    table,
    schema: context.catalogue.schema,
    filters,
    full,
    selection,
    order: orders.usual.write,
    embedLimit: embedLimitOf(context.origin)
  }
  const switches = [...accessSwitches, ...filters.switches, ...embedUses.switches]
  if (query.single === true || query.id !== undefined) {
    const unique = isOneRow(filters, table)
    const ofOne = unique ? { ...parts, order: () => '' } : parts
    return reading(
      compileVariants(context.origin, switches, (draft) => writeRecord(ofOne, unique, draft)),
      'record',
      [...filters.references, ...embedUses.references]
    )
  }
  const references = [...filters.references, ...embedUses.references, ...page.references, ...orders.references]
  if (cursors !== undefined) return { ...cursors(parts, switches), missing: 'notFound', references }
  const withStart = [...switches, page.starts]
  if (!orders.chosen) {
    return reading(
      compileVariants(context.origin, withStart, (draft, literal) => writePage(parts, page, literal, draft), numberChooser(page.literal)),
      'page',
      references
    )
  }
  const variants = compileVariants<OrderedPage>(
    context.origin,
    withStart,
    (draft, chosen) =>
      writePage({ ...parts, order: chosen?.order.write ?? parts.order }, page, chosen?.literal, draft),
    {
      choose: (scope: Scope) => ({ order: orders.choose(scope), literal: page.literal(scope) }),
      keyOf: ({ order, literal }) => `${order.id} ${literal ?? ''}`
    }
  )
  return { ...reading(variants, 'page', references), parameters: orders.parameters }
}

interface OrderedPage {
  readonly order: RowOrder
  readonly literal: number | undefined
}

/** A `select` with aggregates: a page of groups, or the first group. */
function compileGroups (
  { query, table, pointer, context, full, selection, accessSwitches, filters }: Subject
): CompiledOperation | undefined {
  const before = context.faults.faults.length
  if (query.id !== undefined) context.faults.add(pointerTo(pointer, 'id'), '`id` selects one row, which cannot be aggregated')
  if (query.orderBy !== undefined) {
    context.faults.add(pointerTo(pointer, 'orderBy'), 'groups have the order of `order`, which a caller cannot choose')
  }
  if (query.pagination === 'cursor') {
    context.faults.add(pointerTo(pointer, 'pagination'), 'a cursor works with lists of rows, not of groups: remove it, and use `limit` and `offset`')
  }
  const groupOrder = compileGroupOrder(query.order, full, pointerTo(pointer, 'order'), context)
  const page = compilePage(query, pointer, context)
  if (context.faults.faults.length > before) return undefined
  const parts: GroupParts = {
    table,
    schema: context.catalogue.schema,
    filters,
    full,
    selection,
    groupOrder,
    embedLimit: embedLimitOf(context.origin)
  }
  const switches = [...accessSwitches, ...filters.switches]
  if (query.single === true) {
    return reading(compileVariants(context.origin, switches, (draft) => writeGroup(parts, draft)), 'record', filters.references)
  }
  const variants = compileVariants(
    context.origin,
    [...switches, page.starts],
    (draft, literal) => writeGroupPage(parts, page, literal, draft),
    numberChooser(page.literal)
  )
  return reading(variants, 'page', [...filters.references, ...page.references])
}

function reading (
  variants: ReturnType<typeof compileVariants>,
  resultKind: ResultKind,
  references: readonly Reference[]
): CompiledOperation {
  return {
    resultKind,
    missing: 'notFound',
    references,
    bind: variants
  }
}
