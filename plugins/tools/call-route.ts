/** One way to call the route of a tool. */
import type { ToolRequest } from './input.js'
import type { ToolAnswer, ToolCaller, ToolRoute } from './types.js'

export interface CallBounds {
  readonly signal: () => AbortSignal | undefined
  readonly maxBytes: number
  readonly timeoutMs: number
}

/** @param depth calls that this one is within, itself included */
export type CallRoute = (
  route: ToolRoute,
  request: ToolRequest,
  caller: ToolCaller,
  depth: number,
  bounds: CallBounds
) => Promise<ToolAnswer>
