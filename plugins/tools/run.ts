/** Runs the route of a tool in this process. */
import type { FastifyInstance } from 'fastify'
import type { CompiledTool } from './compiled.js'
import type { ToolResult, ToolCall, ToolCaller } from './types.js'
import { createDirectCall } from './direct-call.js'
import { requestOf } from './input.js'
import { depthWithin, type Nesting } from './nesting.js'
import { createRouterCall } from './router-call.js'

const defaultBytes = 65_536 // of a result, which a model reads
const defaultTimeout = 30_000 // ms

export type RunTool = (tool: CompiledTool, input: unknown, caller: ToolCaller, call: ToolCall) => Promise<ToolResult>

export function createRun (app: FastifyInstance, nesting: Nesting): RunTool {
  const direct = createDirectCall(app)
  const throughRouter = createRouterCall(app, nesting)
  return async (tool, input, caller, { signal, response, maxBytes = defaultBytes, timeoutMs = defaultTimeout }) => {
    signal?.throwIfAborted()
    const request = requestOf(tool, input)
    const depth = depthWithin(caller)
    const call = tool.route.serve === undefined ? throughRouter : direct
    return await call(tool.route, request, caller, depth, { signal, response, maxBytes, timeoutMs })
  }
}
