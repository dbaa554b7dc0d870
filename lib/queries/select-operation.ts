/** `select`: a page, or one record. */
import type { ResultKind } from '../expressions/result.js'
import type { Reference, Scope } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import { compileCursorPages } from './cursor-pages.js'
import { compileGroupOrder } from './groups.js'
import type { CompiledOperation } from './operation.js'
import { compileOrders, type RowOrder } from './order.js'
import { compilePage, compilePages } from './page.js'
import { writeGroup, writeGroupPage, writePage, writeRecord } from './read.js'
import { compileVariants } from './sql.js'
import type { Subject } from './subject.js'

/** Compiles the operation; undefined after faults. */
export function compileSelect (subject: Subject): CompiledOperation | undefined {
  if (subject.full.grouped === true) return compileGroups(subject)
  const { query, table, pointer, context, switches } = subject
  const before = context.faults.faults.length
  const orders = compileOrders(query, table, pointer, context)
  const page = compilePage(query, pointer, context)
  const cursors = query.pagination === 'cursor' ? compileCursorPages(subject, orders, page, pointerTo(pointer, 'pagination')) : undefined
  if (context.faults.faults.length > before) return undefined
  const { write } = orders.usual
  const use = { origin: context.origin, isRead: true }
  if (query.single === true || query.id !== undefined) {
    const variants = compileVariants(use, switches, (draft) => writeRecord(subject, write, draft))
    return reading(variants, 'record', subject.references)
  }
  const references = [...subject.references, ...page.references, ...orders.references]
  if (cursors !== undefined) return { ...cursors, missing: 'notFound', references }
  if (query.orderBy === undefined) {
    const variants = compilePages(context.origin, switches, page, (literal, draft) => writePage(subject, write, page, literal, draft))
    return reading(variants, 'page', references)
  }
  const variants = compileVariants<{ readonly order: RowOrder, readonly literal: number | undefined }>(
    use,
    [...switches, page.starts],
    (draft, chosen) => writePage(subject, chosen?.order.write ?? write, page, chosen?.literal, draft),
    {
      choose: (scope: Scope) => ({ order: orders.choose(scope), literal: page.literal(scope) }),
      keyOf: ({ order, literal }) => `${order.id} ${literal ?? ''}`
    }
  )
  return { ...reading(variants, 'page', references), parameters: orders.parameters }
}

/** A `select` with aggregates: a page of groups, or the first group. */
function compileGroups (subject: Subject): CompiledOperation | undefined {
  const { query, pointer, context, switches, references } = subject
  const before = context.faults.faults.length
  if (query.id !== undefined) context.faults.add(pointerTo(pointer, 'id'), '`id` selects one row, which cannot be aggregated')
  if (query.orderBy !== undefined) {
    context.faults.add(pointerTo(pointer, 'orderBy'), 'groups have the order of `order`, which a caller cannot choose')
  }
  if (query.pagination === 'cursor') {
    context.faults.add(pointerTo(pointer, 'pagination'), 'a cursor works with lists of rows, not of groups: remove it, and use `limit` and `offset`')
  }
  const order = compileGroupOrder(query.order, subject.full, pointerTo(pointer, 'order'), context)
  const page = compilePage(query, pointer, context)
  if (context.faults.faults.length > before) return undefined
  if (query.single === true) {
    return reading(compileVariants({ origin: context.origin, isRead: true }, switches, (draft) => writeGroup(subject, order, draft)), 'record', references)
  }
  const variants = compilePages(context.origin, switches, page, (literal, draft) => writeGroupPage(subject, order, page, literal, draft))
  return reading(variants, 'page', [...references, ...page.references])
}

function reading (
  variants: ReturnType<typeof compileVariants>,
  resultKind: ResultKind,
  references: readonly Reference[]
): CompiledOperation {
  return { resultKind, missing: 'notFound', references, bind: variants }
}
