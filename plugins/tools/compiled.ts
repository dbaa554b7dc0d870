/** Compiles tools from their routes: once for each generation of a document, when a caller first needs a tool. */
import type { Tool, ToolRoute } from './types.js'
import { toolShape, type ToolShape } from '../../lib/compiler/tool-shape.js'
import { pathParameters } from '../../lib/compiler/route-parts.js'

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

export interface PathPart {
  readonly text: string
  readonly param: string | null
}

/** null if the route does not fit the tables of the database. */
export function compileTool (route: ToolRoute): CompiledTool | null {
  const documentation = route.documentation()
  if (documentation === undefined) return null
  const params = pathParameters(route.path)
  const shape = toolShape(params, documentation)
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
