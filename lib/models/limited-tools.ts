/** Tools for one response, with a limit of their calls. */
import { failure } from '../errors.js'
import type { ModelTool } from './types.js'

const maxCalls = 32

/** The tools, which together can be called `maxCalls` times. The first tool with a name takes precedence. */
export function limitedTools (tools: Iterable<ModelTool>): ModelTool[] {
  let calls = 0
  const byName = new Map<string, ModelTool>()
  for (const tool of tools) if (!byName.has(tool.name)) byName.set(tool.name, tool)
  return Array.from(byName.values(), (tool) => ({
    ...tool,
    async run (input, signal) {
      if (++calls > maxCalls) throw failure('badRequest', { message: `At most ${maxCalls} tool calls are allowed per response` })
      return await tool.run(input, signal)
    }
  }))
}
