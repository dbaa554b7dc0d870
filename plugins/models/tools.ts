/** Tools of a call: their descriptions for the model, and their runs. */
import type { LanguageModelV3FunctionTool, LanguageModelV3ToolResultPart } from '@ai-sdk/provider'
import type { FastifyRequest } from 'fastify'
import { untilAborted } from '../../lib/concurrency/with-timeout.js'
import { TenantryError } from '../../lib/errors.js'
import { storableJson } from '../../lib/json/storable.js'
import { parsedInput, type ToolCall } from '../../lib/models/round.js'
import { countTokens } from '../../lib/models/tokens.js'
import type { ModelTool, ToolCallOutcome, ToolSource } from '../../lib/models/types.js'
import { invalidInput } from '../../lib/validation/detail.js'

const maxCalls = 16 // of a round
const maxResult = 100_000 // characters of JSON
const maxRunMs = 120_000
const tooLarge = failed('The result is too large for the context of the model: request less')
/** The tokens of the error in place of a result that is too large. */
export const minResultTokens = countTokens(tooLarge.value)

interface ToolResult {
  readonly outcome: ToolCallOutcome
  readonly part: LanguageModelV3ToolResultPart
  readonly tokens: number
}

export function schemasOf (tools: readonly ModelTool[]): LanguageModelV3FunctionTool[] {
  return tools.map(({ name, description, inputSchema }) => ({ type: 'function', name, description, inputSchema }))
}

/**
 * Runs the calls one after another. The result of a failed call is its error. Rejects with the signal's reason.
 *
 * @param room the maximum tokens of all results, at least `minResultTokens` for each
 */
export async function runTools (
  calls: readonly ToolCall[],
  tools: readonly ModelTool[],
  room: number,
  signal: AbortSignal
): Promise<ToolResult[]> {
  const results: ToolResult[] = []
  let left = room
  for (const [index, call] of calls.entries()) {
    const result = index < maxCalls ? await runCall(call, tools, signal) : failed(`At most ${maxCalls} tool calls are allowed per response`)
    signal.throwIfAborted()
    const size = countTokens(result.value)
    const fits = size <= left - (calls.length - 1 - index) * minResultTokens
    const { value, ok } = fits ? result : tooLarge
    const tokens = fits ? size : minResultTokens
    left -= tokens
    results.push({
      outcome: { name: call.name, ok },
      part: { type: 'tool-result', toolCallId: call.id, toolName: call.name, output: { type: ok ? 'text' : 'error-text', value } },
      tokens
    })
  }
  return results
}

/** JSON text: the result of a tool, or its error. */
interface Outcome {
  readonly value: string
  readonly ok: boolean
}

async function runCall (call: ToolCall, tools: readonly ModelTool[], signal: AbortSignal): Promise<Outcome> {
  const tool = tools.find(({ name }) => name === call.name)
  if (tool === undefined) return failed('There is no such tool')
  const input = parsedInput(call.input)
  if (input === undefined) return failed('The input is not valid JSON')
  // `AbortSignal.any` does not keep a signal of `AbortSignal.timeout`: a garbage collection would remove the timeout.
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), maxRunMs)
  const over = AbortSignal.any([signal, late.signal])
  try {
    const result = await untilAborted(tool.run(input, over), over)
    const json = storableJson(JSON.stringify(result) ?? 'null')
    return json.length > maxResult ? failed(`The result has more than ${maxResult} characters: request less`) : { value: json, ok: true }
  } catch (error) {
    return failed(error instanceof TenantryError ? error.message : 'The tool failed')
  } finally {
    clearTimeout(timer)
  }
}

function failed (error: string): Outcome {
  return { value: JSON.stringify({ error }), ok: false }
}

/** Finds tools by name, those of the first source first. Throws `validationFailed` for names that no source knows. */
export async function findTools (sources: readonly ToolSource[], names: readonly string[], request: FastifyRequest): Promise<ModelTool[]> {
  if (names.length === 0) return []
  const found = new Map<string, ModelTool>()
  for (const source of sources) {
    for (const [name, tool] of await source.resolve(names, request)) if (!found.has(name)) found.set(name, tool)
  }
  return names.map((name, index) => {
    const tool = found.get(name)
    if (tool === undefined) throw invalidInput(`/body/tools/${index}`, 'is not the name of a tool that this caller can use', 'enum')
    return tool
  })
}
