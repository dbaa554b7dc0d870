/** The filters, order and limit of an embed under `embeds`. */
import type { Embed } from '../schema/query.js'
import type { Reference } from '../expressions/types.js'
import type { EmbedLimit, EmbedRows, Selection } from './field.js'
import type { Relation } from './relation.js'
import { pointerTo } from '../schema/faults.js'
import type { QueryContext } from './context.js'
import { type CompiledFilters, compileFilters } from './filter.js'
import { compileGroupOrder } from './groups.js'
import { compileOrder } from './order.js'
import { compileCount } from './page.js'
import type { Switch } from './sql.js'

const noFilters: CompiledFilters = { conditions: [], switches: [], references: [], pinned: new Set(), always: false }
const maxLimit = 1000

/** @param selection the selection of the rows; null if they are only counted */
export function compileEmbedRows (
  options: Embed | undefined,
  inner: boolean,
  relation: Relation,
  selection: Selection | null,
  pointer: string,
  context: QueryContext
): EmbedRows {
  if (options === undefined) return { inner, filters: noFilters }
  const { table, many } = relation
  const isList = many && selection !== null
  for (const member of ['order', 'limit'] as const) {
    if (options[member] !== undefined && !isList) {
      context.faults.add(pointerTo(pointer, member), `${many ? 'a count' : 'a single record'} has no \`${member}\``)
    }
  }
  const filters = compileFilters(options.filters, table, pointerTo(pointer, 'filters'), context)
  const order = isList && options.order !== undefined
    ? compileRowOrder(options.order, selection, pointerTo(pointer, 'order'), context)
    : undefined
  const limit = isList ? compileLimit(options.limit, pointerTo(pointer, 'limit'), context) : undefined
  return { inner, filters, ...order !== undefined && { order }, ...limit !== undefined && { limit } }
}

function compileRowOrder (
  order: Embed['order'],
  selection: Selection,
  pointer: string,
  context: QueryContext
): (selection: Selection, alias: string) => string {
  if (selection.grouped === true) return compileGroupOrder(order, selection, pointer, context)
  const ofRows = compileOrder(order, selection.table, pointer, context)
  return (_, alias) => ofRows.write(alias)
}

function compileLimit (limit: Embed['limit'], pointer: string, context: QueryContext): EmbedLimit | undefined {
  if (limit === undefined) return undefined
  const { read, references } = compileCount(limit, pointer, { ...context, secretsRefusedIn: 'the `limit` of an embed' })
  return {
    literal: typeof limit === 'number' ? Math.min(limit, maxLimit) : undefined,
    bind: (scope) => {
      const count = read(scope)
      return count === undefined ? null : Math.min(count, maxLimit)
    },
    references
  }
}

/** The references of a selection's embeds, and the switches of their optional filters. */
export interface EmbedUses {
  readonly switches: readonly Switch[]
  readonly references: readonly Reference[]
}

export function embedUses ({ fields }: Selection): EmbedUses {
  const switches: Switch[] = []
  const references: Reference[] = []
  for (const field of fields) {
    if (field.kind !== 'embed' && field.kind !== 'count') continue
    const { filters, limit } = field.rows
    const within = field.kind === 'embed' ? embedUses(field.selection) : { switches: [], references: [] }
    switches.push(...filters.switches, ...within.switches)
    references.push(...filters.references, ...limit?.references ?? [], ...within.references)
  }
  return { switches, references }
}
