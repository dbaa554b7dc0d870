/**
 * Compiled routes that tenants share: many tenants save the same routes, from one template. A compiled route does not depend on the
 * tenant (its scope does), and mostly not on the path. Tenants with equal routes share one copy as long as one of them is loaded. Shared
 * memory is also more often in the processor's cache when the next tenant's request needs it.
 */
import { createHash } from 'node:crypto'
import { sharedByText } from '../../lib/cache/weak-memo.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { compiledParts } from '../../lib/compiler/route-parts.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { Route } from '../../lib/schema/route.js'

/** @param settings everything else in its document that a compiled route depends on */
export function createSharedRoutes () {
  const byTables = new WeakMap<Catalogue, ReturnType<typeof sharedByText<CompiledRoute | null>>>()

  return (settings: unknown) => {
    const prefix = stringifyJson(settings ?? null)
    /**
     * Compiles the route, or returns the one compiled for the same tables. null if the route does not fit the tables.
     * @param others the parts of other routes of the document that the route depends on
     */
    return (route: Route, tables: Catalogue, compile: () => CompiledRoute | null, others: readonly object[] = []): CompiledRoute | null => {
      const shared = byTables.get(tables) ?? sharedByText<CompiledRoute | null>()
      byTables.set(tables, shared)
      return shared(createHash('sha256').update(prefix).update(stringifyJson([compiledParts(route), others])).digest('base64'), compile)
    }
  }
}
