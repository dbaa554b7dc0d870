/** The tools of a chat: those of the document that the caller may call, with a bound on their calls. */
import type { FastifyRequest } from 'fastify'
import type { ModelTool } from '../../lib/models/types.js'
import type { McpServers } from '../mcp-client/types.js'
import type { Tools } from '../tools/types.js'
import { failure } from '../../lib/errors.js'

const maxTools = 128 // that a model is offered
const maxCalls = 32 // of tools for one answer

export interface ToolSources {
  readonly tools: Tools | null
  /** null without MCP servers. */
  readonly servers: McpServers | null
}

/** @param names those of the document; undefined for all tools of the caller */
export async function chatTools (
  { tools, servers }: ToolSources,
  names: readonly string[] | undefined,
  request: FastifyRequest
): Promise<ModelTool[]> {
  let calls = 0
  const listed = names ?? [...(await tools?.listed(request) ?? []).map(({ name }) => name), ...await servers?.names(request) ?? []]
  const offered = listed.slice(0, maxTools)
  const found = [...(await tools?.resolve(offered, request))?.values() ?? [], ...(await servers?.resolve(offered, request))?.values() ?? []]
  // A route's tool comes first: the names of models have no dot.
  const unique = found.filter(({ name }, index) => found.findIndex((other) => other.name === name) === index)
  return unique.map((tool) => ({
    ...tool,
    async run (input, signal) {
      if (++calls > maxCalls) throw failure('badRequest', { message: `At most ${maxCalls} tools run for one answer` })
      return await tool.run(input, signal)
    }
  }))
}
