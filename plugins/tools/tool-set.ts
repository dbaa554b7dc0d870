/** The tools of a document. Schemas are compiled when a caller first needs them; requirements on callers are grouped. */
import { pathParameters } from '../../lib/compiler/route-parts.js'
import { type ToolShape, toolShape } from '../../lib/compiler/tool-shape.js'
import { schemaWriter } from './schema-writer.js'
import type { Tool, ToolAccess, ToolRoute } from './types.js'

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
    sorted: sortedByName([...entries.values()]),
    accesses: Array.from(accesses.values(), ({ access }) => access)
  }
}

export function sortedByName (entries: readonly ToolEntry[]): ToolEntry[] {
  return entries.toSorted((left, right) => left.route.declared.name < right.route.declared.name ? -1 : 1)
}

/** A tool, compiled once for each generation of a document, when a caller first needs it. */
export interface CompiledTool {
  readonly route: ToolRoute
  readonly tool: Tool
  readonly shape: ToolShape
  /** The path in parts, each with the text before a parameter. The last one may have no parameter. */
  readonly path: readonly PathPart[]
  /** Parameters of the path. */
  readonly params: readonly string[]
  /** Characters of the tool's schemas, name and description. */
  readonly size: number
}

interface PathPart {
  readonly text: string
  readonly param: string | null
}

/** null if the route does not fit the tables of the database. */
function compileTool (route: ToolRoute): CompiledTool | null {
  const documentation = route.documentation()
  if (documentation === undefined) return null
  const params = pathParameters(route.path)
  const shared = route.sharedSchemas?.() ?? {}
  const shape = toolShape(params, documentation, () => schemaWriter(shared))
  const { inputSchema, outputSchema } = shape
  const tool = Object.freeze({ ...route.declared, inputSchema, ...outputSchema !== undefined && { outputSchema } })
  return { route, tool, shape, path: pathParts(route.path), params, size: shape.size + tool.name.length + tool.description.length }
}

function pathParts (path: string): PathPart[] {
  const parts: PathPart[] = []
  let text = ''
  for (const [index, segment] of path.split('/').entries()) {
    if (index > 0) text += '/'
    if (segment.startsWith(':')) {
      parts.push({ text, param: segment.slice(1) })
      text = ''
    } else text += segment
  }
  if (text !== '') parts.push({ text, param: null })
  return parts
}
