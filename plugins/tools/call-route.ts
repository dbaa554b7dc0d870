/** A way to call the route of a tool. */
import type { ToolRequest } from './input.js'
import type { ToolCall, ToolResult, ToolCaller, ToolRoute } from './types.js'

export interface CallBounds extends Pick<ToolCall, 'signal' | 'response'> {
  readonly maxBytes: number
  readonly timeoutMs: number
}

/** @param depth the number of nested tool calls, including this one */
export type CallRoute = (
  route: ToolRoute,
  request: ToolRequest,
  caller: ToolCaller,
  depth: number,
  bounds: CallBounds
) => Promise<ToolResult>
