/** The tools of a document. Schemas are compiled when a caller first needs them; requirements on callers are grouped. */
import type { ToolAccess, ToolRoute } from './types.js'
import { compileTool, type CompiledTool } from './compiled.js'

export interface ToolEntry {
  readonly route: ToolRoute
  /** The index in the set's `accesses`. */
  readonly access: number
  /** null if the route does not fit the tables of the database. */
  compiled(): CompiledTool | null
}

export interface ToolSet {
  /** Equal only for the same routes. */
  readonly key: string
  /** By name. */
  readonly entries: ReadonlyMap<string, ToolEntry>
  /** Sorted by name. */
  readonly sorted: readonly ToolEntry[]
  /** The distinct requirements of the tools on callers. */
  readonly accesses: readonly ToolAccess[]
}

export type KeepTool = (name: string, compile: () => CompiledTool | null) => CompiledTool | null

export function toolSet (key: string, routes: readonly ToolRoute[], keep: KeepTool): ToolSet {
  const accesses = new Map<string, { readonly index: number, readonly access: ToolAccess }>()
  const entries = new Map(routes.map((route) => {
    const { access, authProvider, permission, permissions, publicTenant } = route
    const own: ToolAccess = { access, authProvider, permission, permissions, publicTenant }
    const text = JSON.stringify(own)
    const known = accesses.get(text) ?? { index: accesses.size, access: own }
    accesses.set(text, known)
    const { name } = route.declared
    return [name, { route, access: known.index, compiled: () => keep(name, () => compileTool(route)) }]
  }))
  return {
    key,
    entries,
    sorted: [...entries.values()].sort((left, right) => left.route.declared.name < right.route.declared.name ? -1 : 1),
    accesses: Array.from(accesses.values(), ({ access }) => access)
  }
}
