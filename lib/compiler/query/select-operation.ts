/** `select`: a page, or one record. */
import type { Answer, Reference } from '../types.js'
import type { CompiledOperation } from './operation.js'
import type { Subject } from './subject.js'
import { pointerTo } from '../../config/faults.js'
import { embedLimitOf } from './embed.js'
import { compileGroupOrder } from './groups.js'
import { compilePage } from './page.js'
import { compileListing, type GroupParts, type ReadParts, writeGroup, writeGroupPage, writePage, writeRecord } from './read.js'
import { isOneRow } from './row-key.js'
import { noInput } from './sql.js'
import { compileVariants } from './statement.js'

/** Compiles the operation; undefined after faults were added. */
export function compileSelect (subject: Subject): CompiledOperation | undefined {
  if (subject.full.grouped === true) return compileGroups(subject)
  const { query, table, pointer, context, selection, accessSwitches, filters } = subject
  const before = context.faults.faults.length
  const { order, page } = compileListing(query, table, pointer, context)
  if (context.faults.faults.length > before) return undefined
  const parts: ReadParts = { table, schema: context.catalogue.schema, filters, selection, order, embedLimit: embedLimitOf(context.origin) }
  const one = query.single === true || query.id !== undefined
  const unique = isOneRow(filters, table)
  const switches = [...accessSwitches, ...filters.switches]
  const variants = one
    ? compileVariants(context.origin, switches, (placeholders, on) => writeRecord(unique ? { ...parts, order: () => '' } : parts, unique, placeholders, on))
    : compileVariants(context.origin, [...switches, page.starts], (placeholders, on, literal) => writePage(parts, page, literal, placeholders, on), page.literal)
  return reading(variants, one ? 'record' : 'page', one ? filters.references : [...filters.references, ...page.references])
}

/** A `select` with aggregates: a page of groups, or the first one. */
function compileGroups ({ query, table, pointer, context, full, selection, accessSwitches, filters }: Subject): CompiledOperation | undefined {
  const before = context.faults.faults.length
  if (query.id !== undefined) context.faults.add(pointerTo(pointer, 'id'), '`id` names one row: there is nothing to aggregate')
  const groupOrder = compileGroupOrder(query.order, full, pointerTo(pointer, 'order'), context)
  const page = compilePage(query, pointer, context)
  if (context.faults.faults.length > before) return undefined
  const parts: GroupParts = { table, schema: context.catalogue.schema, filters, selection, groupOrder, embedLimit: embedLimitOf(context.origin) }
  const switches = [...accessSwitches, ...filters.switches]
  if (query.single === true) return reading(compileVariants(context.origin, switches, (placeholders, on) => writeGroup(parts, placeholders, on)), 'record', filters.references)
  const variants = compileVariants(context.origin, [...switches, page.starts], (placeholders, on, literal) => writeGroupPage(parts, page, literal, placeholders, on), page.literal)
  return reading(variants, 'page', [...filters.references, ...page.references])
}

function reading (variants: ReturnType<typeof compileVariants>, answer: Answer, references: readonly Reference[]): CompiledOperation {
  return {
    answer,
    missing: 'notFound',
    references,
    bind: (scope) => {
      const { statement, values } = variants(scope, noInput)
      return { statement, values, answer }
    }
  }
}
