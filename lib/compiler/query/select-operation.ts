/** `select`: a page, or one record. */
import type { CompiledOperation } from './operation.js'
import type { Subject } from './subject.js'
import { embedLimitOf } from './embed.js'
import { compileListing, type ReadParts, writePage, writeRecord } from './read.js'
import { isOneRow } from './row-key.js'
import { noInput } from './sql.js'
import { compileVariants } from './statement.js'

/** Compiles the operation; undefined after faults were added. */
export function compileSelect ({ query, table, pointer, context, selection, accessSwitches, filters }: Subject): CompiledOperation | undefined {
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
  const answer = one ? 'record' : 'page'
  return {
    answer,
    missing: 'notFound',
    references: one ? filters.references : [...filters.references, ...page.references],
    bind: (scope) => {
      const { statement, values } = variants(scope, noInput)
      return { statement, values, answer }
    }
  }
}
