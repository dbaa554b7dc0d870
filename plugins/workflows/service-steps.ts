/**
 * Runs the steps of other plugins: language models, embeddings and messages to rooms. A call that may have been charged is never
 * repeated.
 */
import { noActor } from '../../lib/database/audit.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { toText } from '../../lib/expressions/template.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { toJsonText } from '../../lib/json/stringify.js'
import { isCharged, markCharged } from '../../lib/models/failures.js'
import { limitedTools } from '../../lib/models/limited-tools.js'
import type { ChatCall, ModelMessage, Models, ModelTool } from '../../lib/models/types.js'
import { lazyValidator, type PartValidator, validationError } from '../../lib/validation/validator.js'
import {
  embeddingOperations, embeddingsStep, llmStep, realtimeStep, type StepCall, type StepRunner
} from '../../lib/workflows/service-steps.js'
import { checkDocument, checkFilter, Document, SearchBody, Texts } from '../embeddings/schemas.js'
import type { Embeddings, NewDocument, Search } from '../embeddings/types.js'
import type { McpServers } from '../mcp-client/types.js'
import type { Realtime } from '../realtime/types.js'

const maxTools = 32

/** @param servers null without MCP servers */
export function createLlmStep (models: Models, servers: () => McpServers | null): StepRunner {
  async function toolsOf (names: unknown, { tenant, life, user, toolDepth: depth, routeTools, signal }: StepCall): Promise<ModelTool[]> {
    if (!Array.isArray(names) || names.length > maxTools || !names.every((name) => typeof name === 'string')) {
      throw refused(`\`params.tools\` must be an array of at most ${maxTools} names`)
    }
    // Only names of servers' tools have a dot.
    const ofRoutes = names.filter((name) => !name.includes('.'))
    const ofServers = names.filter((name) => name.includes('.'))
    const serverUser = { tenant, life, actor: { userId: user, address: null }, depth, signal }
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
      const { tenant, life, user, signal, ...sending } = step
      if (tenant === platformRef) throw failure('tenantRequired')
      const { system, maxOutputTokens, temperature, tools } = isRecord(params) ? params : {}
      const messages: ModelMessage[] = [
        ...system === undefined || system === null ? [] : [{ role: 'system' as const, content: textOf(system) }],
        { role: 'user', content: textOf(prompt) }
      ]
      const call: ChatCall = {
        tenant,
        life,
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

const validators = {
  embed: lazyValidator(Texts, 'body'),
  document: lazyValidator(Document, 'body'),
  search: lazyValidator(SearchBody, 'body')
}

export function createEmbeddingsStep (embeddings: Embeddings): StepRunner {
  return {
    ...embeddingsStep,
    // A further attempt would be charged too.
    isFinal: isCharged,

    async run ({ operation, params }, { tenant, life, user, signal, ...sending }) {
      if (tenant === platformRef) throw failure('tenantRequired')
      const call = { life, user: user === null ? null : { id: user }, signal }
      const name = embeddingOperations.find((one) => one === operation)
      switch (name) {
        case 'embed': {
          const { texts } = valid<{ texts: string[] }>(validators.embed, params)
          return await chargedOnce(sending, () => embeddings.embed(tenant, texts, call))
        }
        case 'document': {
          const document = valid<NewDocument>(validators.document, params)
          checkDocument(document, '/params')
          const { id, chunks, usage } = await chargedOnce(
            sending,
            () => embeddings.put(tenant, document, { ...call, actor: { ...noActor, userId: user } })
          )
          return { id, chunks, usage }
        }
        case 'search': {
          const { threshold, ...given } = valid<Search>(validators.search, params)
          // A parameter may have more digits than a double.
          const search = { ...given, threshold: threshold === undefined ? undefined : Number(threshold) }
          checkFilter(search.filter ?? {}, '/params/filter')
          // A text search needs no model.
          return search.mode === 'text'
            ? await embeddings.search(tenant, search, call)
            : await chargedOnce(sending, () => embeddings.search(tenant, search, call))
        }
        case undefined:
          throw failure('badRequest', { message: `embeddings has no operation "${String(operation)}"` })
        default:
          return name satisfies never
      }
    }
  }
}

function valid<Params> (validate: PartValidator, params: unknown): Params {
  const errors = validate(params)
  if (errors !== null) throw validationError(errors, 'body')
  // The schema of the step type has validated it.
  return params as Params
}

/** Runs steps of the type `realtime`. Sends the message to the members of the room, at most once per attempt. The result is null. */
export function createRealtimeStep ({ publish }: Pick<Realtime, 'publish'>): StepRunner {
  return {
    ...realtimeStep,
    async run ({ room, event, data }, { tenant }) {
      if (tenant === platformRef) throw failure('tenantRequired')
      publish(tenant, { room: toText(room), ...event !== undefined && { event: toText(event) }, data: data ?? null })
      return null
    }
  }
}

// Calls of steps that cost money: a call that may have been charged is never repeated, not even after a crash.

/** Rejects with `stepAnswerLost` if the step has made its call before. */
async function chargedOnce<Result> ({ wasSent, note }: Pick<StepCall, 'wasSent' | 'note'>, make: () => Promise<Result>): Promise<Result> {
  if (wasSent) {
    const error = failure('stepAnswerLost')
    markCharged(error)
    throw error
  }
  await note(true)
  try {
    return await make()
  } catch (error) {
    if (!isCharged(error)) await note(false)
    throw error
  }
}
