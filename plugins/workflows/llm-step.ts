/** Runs steps of the type `llm`: the result is the text of the response, or the object with `responseFormat`. */
import type { ChatCall, ModelMessage, Models, ModelTool } from '../../lib/models/types.js'
import type { McpServers } from '../mcp-client/types.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { isCharged } from '../../lib/models/failures.js'
import { limitedTools } from '../../lib/models/limited-tools.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { toJsonText } from '../../lib/json/stringify.js'
import { llmStep, type StepCall, type StepRunner } from '../../lib/workflows/service-steps.js'
import { chargedOnce } from './charged-call.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

const maxTools = 32

/** @param servers null without MCP servers */
export function createLlmStep (models: Models, servers: () => McpServers | null): StepRunner {
  async function toolsOf (names: unknown, { tenant, user, toolDepth: depth, routeTools, signal }: StepCall): Promise<ModelTool[]> {
    if (!Array.isArray(names) || names.length > maxTools || !names.every((name) => typeof name === 'string')) {
      throw refused(`\`params.tools\` must be an array of at most ${maxTools} names`)
    }
    // Only names of servers' tools have a dot.
    const ofRoutes = names.filter((name) => !name.includes('.'))
    const ofServers = names.filter((name) => name.includes('.'))
    const serverUser = { tenant, actor: { userId: user, address: null }, depth, signal }
    const found = new Map([
      ...ofRoutes.length === 0 ? [] : await routeTools(ofRoutes),
      ...ofServers.length === 0 ? [] : await servers()?.toolsFor(ofServers, serverUser) ?? []
    ])
    const missing = names.find((name) => !found.has(name))
    if (missing !== undefined) throw refused(`the caller of the run cannot use the tool "${missing.slice(0, 200)}"`)
    return limitedTools(found.values())
  }

  return {
    ...llmStep,
    // A further attempt would be charged too.
    isFinal: isCharged,
    async run ({ prompt, model, responseFormat, params }, step) {
      const { tenant, user, signal, ...sending } = step
      if (tenant === platformRef) throw failure('tenantRequired')
      const { system, maxOutputTokens, temperature, tools } = isRecord(params) ? params : {}
      const messages: ModelMessage[] = [
        ...system === undefined || system === null ? [] : [{ role: 'system' as const, content: textOf(system) }],
        { role: 'user', content: textOf(prompt) }
      ]
      const call: ChatCall = {
        tenant,
        user: user === null ? null : { id: user },
        messages,
        ...model !== undefined && model !== null && { model: textOf(model) },
        ...maxOutputTokens !== undefined && maxOutputTokens !== null && { maxOutputTokens: wholeOf(maxOutputTokens) },
        ...temperature !== undefined && temperature !== null && { temperature: temperatureOf(temperature) },
        ...responseFormat !== undefined && responseFormat !== null && { responseFormat: schemaOf(responseFormat) },
        ...tools !== undefined && tools !== null && { tools: await toolsOf(tools, step) },
        signal
      }
      const { text, object } = await chargedOnce(sending, () => models.chat(call))
      return responseFormat === undefined || responseFormat === null ? text : object
    }
  }
}

function textOf (value: unknown): string {
  return typeof value === 'string' ? value : toJsonText(value) ?? ''
}

function wholeOf (value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1) return value
  throw refused('`params.maxOutputTokens` must be a whole number of at least 1')
}

function temperatureOf (value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= 2) return value
  throw refused('`params.temperature` must be a number from 0 to 2')
}

function schemaOf (value: unknown): Record<string, unknown> {
  if (isRecord(value)) return value
  throw refused('`responseFormat` must be a JSON Schema')
}

function refused (message: string): TenantryError {
  return failure('badRequest', { message: `The step cannot call a model: ${message}` })
}
