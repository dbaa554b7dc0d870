/**
 * Compiled routes that tenants have in common: many save the same ones, from one template. A compiled route knows no
 * tenant (its scope does) and for the most part no path, so that those who wrote the same share it, for as long as one of
 * them is at hand: what is the same in memory is also near to the processor when the next tenant's request needs it.
 */
import type { Route } from '../../lib/schema/route.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { createHash } from 'node:crypto'
import { compiledParts } from '../../lib/compiler/route-parts.js'
import { stringifyJson } from '../../lib/json/stringify.js'

/**
 * Compiles the route, or returns the one that was compiled for the same tables; null if the tables do not fit.
 * @param others what the route depends on of other routes of its document
 */
export type CompileShared = (
  route: Route,
  tables: Catalogue,
  compile: () => CompiledRoute | null,
  others?: readonly object[]
) => CompiledRoute | null

/** @param settings what else a compiled route depends on, by the document it stands in */
export function createSharedRoutes (): (settings: unknown) => CompileShared {
  const byTables = new WeakMap<Catalogue, Map<string, WeakRef<CompiledRoute>>>()
  const gone = new FinalizationRegistry<{ of: Map<string, WeakRef<CompiledRoute>>, key: string }>(({ of, key }) => {
    if (of.get(key)?.deref() === undefined) of.delete(key)
  })

  return (settings) => {
    const prefix = stringifyJson(settings ?? null)
    return (route, tables, compile, others = []) => {
      const of = byTables.get(tables) ?? new Map<string, WeakRef<CompiledRoute>>()
      byTables.set(tables, of)
      const key = createHash('sha256').update(prefix).update(stringifyJson([compiledParts(route), others])).digest('base64')
      const known = of.get(key)?.deref()
      if (known !== undefined) return known
      const compiled = compile()
      if (compiled !== null) {
        of.set(key, new WeakRef(compiled))
        gone.register(compiled, { of, key })
      }
      return compiled
    }
  }
}
