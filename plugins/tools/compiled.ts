/** Compiles tools from their routes: once for each generation of a document, when a caller first needs a tool. */
import type { Tool, ToolRoute } from './types.js'
import { toolShape, type ToolShape } from '../../lib/compiler/tool-shape.js'
import { pathParameters } from '../../lib/compiler/route-parts.js'

export interface CompiledTool {
  readonly route: ToolRoute
  readonly tool: Tool
  readonly shape: ToolShape
  /** Segments of the path; parameters begin with a colon. */
  readonly segments: readonly string[]
  /** Parameters of the path. */
  readonly params: readonly string[]
  /** Characters of the tool's schemas, name and description. */
  readonly size: number
}

/** null if the route does not fit the tables of the database. */
export function compileTool (route: ToolRoute): CompiledTool | null {
  const documentation = route.documentation()
  if (documentation === undefined) return null
  const params = pathParameters(route.path)
  const shape = toolShape(params, documentation)
  const { inputSchema, outputSchema } = shape
  const tool = Object.freeze({ ...route.declared, inputSchema, ...outputSchema !== undefined && { outputSchema } })
  return { route, tool, shape, segments: route.path.split('/'), params, size: shape.size + tool.name.length + tool.description.length }
}
