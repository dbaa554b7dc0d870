/**
 * Compiled routes that tenants share: many tenants save the same routes, from one template. A compiled route does not depend on
 * the tenant (its scope does), and mostly not on the path. Tenants with equal routes share one copy as long as one of them is
 * loaded. Shared memory is also more often in the processor's cache when the next tenant's request needs it.
 */
import type { Route } from '../../lib/schema/route.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { createHash } from 'node:crypto'
import { compiledParts } from '../../lib/compiler/route-parts.js'
import { stringifyJson } from '../../lib/json/stringify.js'

/**
 * Compiles the route, or returns the one compiled for the same tables. null if the route does not fit the tables.
 * @param others the parts of other routes of the document that the route depends on
 */
export type CompileShared = (
  route: Route,
  tables: Catalogue,
  compile: () => CompiledRoute | null,
  others?: readonly object[]
) => CompiledRoute | null

/** @param settings everything else in its document that a compiled route depends on */
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
