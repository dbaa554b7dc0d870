/** The tools of a document. Their schemas are compiled when a caller first needs them, and what they ask of callers is grouped. */
import type { CompiledTool } from './compiled.js'
import type { ToolAccess, ToolRoute } from './types.js'
import { compileTool } from './compiled.js'

export interface ToolEntry {
  readonly route: ToolRoute
  /** The index of what it asks, in `accesses` of its set. */
  readonly access: number
  /** null for a route that the tables of the database do not fit. */
  compiled(): CompiledTool | null
}

export interface ToolSet {
  /** The same for the same routes only. */
  readonly key: string
  /** By name. */
  readonly entries: ReadonlyMap<string, ToolEntry>
  /** In the order of their names. */
  readonly sorted: readonly ToolEntry[]
  /** What the tools ask of their callers, each once. */
  readonly accesses: readonly ToolAccess[]
}

/** Keeps a compiled tool of a set, or has it compiled again. */
export type KeepTool = (name: string, compile: () => CompiledTool | null) => CompiledTool | null

export function toolSet (key: string, routes: readonly ToolRoute[], keep: KeepTool): ToolSet {
  const accesses = new Map<string, { readonly index: number, readonly access: ToolAccess }>()
  const entries = new Map(routes.map((route) => {
    const { access, authProvider, permission, permissions } = route
    const text = JSON.stringify([access, authProvider, permission, permissions])
    const known = accesses.get(text) ?? { index: accesses.size, access: { access, authProvider, permission, permissions } }
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
