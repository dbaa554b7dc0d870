/** The validation of a call of the chat model. */
import type { LanguageModelV3CallOptions } from '@ai-sdk/provider'
import type { AgentSettings } from '../../lib/document/rules/agent.js'
import { failure } from '../../lib/errors.js'
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import type { ImageMemory } from '../../lib/models/images.js'
import { checkMessages } from '../../lib/models/prompt.js'
import { compileResponseFormat, type ResponseFormat } from '../../lib/models/response-format.js'
import { countPrompt, countTokens } from '../../lib/models/tokens.js'
import type { ChatCall, ModelInfo, ModelMessage } from '../../lib/models/types.js'
import type { Llm } from '../../lib/schema/agent.js'
import type { CallParts } from './call-parts.js'
import type { Payer } from './charges.js'
import { schemasOf } from './tools.js'

const defaultMaxOutputTokens = 1000
const defaultMaxRounds = 5
const maxRounds = 20

export interface ChatParts extends CallParts {
  readonly llm: Llm
  readonly settings: Pick<AgentSettings, 'chat' | 'logPrompts'>
  readonly models: readonly ModelInfo[]
  readonly images: ImageMemory
}

/** A validated call. */
export interface PreparedCall {
  readonly info: ModelInfo
  readonly payer: Payer
  readonly messages: readonly ModelMessage[]
  readonly options: Omit<LanguageModelV3CallOptions, 'prompt'>
  readonly promptTokens: number
  readonly maxOutputTokens: number
  readonly format: ResponseFormat | null
  readonly rounds: number
}

/** Throws `notFound` for an unknown model, and the errors of invalid messages and formats. */
export function prepareCall ({ llm, settings, models, provider }: ChatParts, call: ChatCall): PreparedCall {
  const id = call.model ?? llm.model
  const info = models.find((model) => model.kind === 'chat' && model.id === id)
  if (info === undefined) throw failure('notFound', { message: 'There is no chat model with this name: GET /llm/models lists them' })
  const messages = checkMessages(call.messages)
  const format = call.responseFormat === undefined ? null : compileResponseFormat(call.responseFormat)
  const most = llm.maxOutputTokens ?? defaultMaxOutputTokens
  const maxOutputTokens = Math.max(1, Math.min(call.maxOutputTokens ?? most, most))
  const tools = call.tools ?? []
  const schemas = schemasOf(tools)
  const schemaText = (tools.length === 0 ? '' : JSON.stringify(schemas)) + (format === null ? '' : JSON.stringify(format.schema))
  return {
    info,
    payer: { tenant: tenantRef(call.tenant), user: call.user, price: info.price },
    messages,
    options: {
      maxOutputTokens,
      ...call.temperature !== undefined && { temperature: call.temperature },
      ...format !== null && { responseFormat: { type: 'json', schema: format.schema, name: 'answer' } },
      ...tools.length > 0 && { tools: schemas },
      providerOptions: provider.chatOptions
    },
    promptTokens: countPrompt(messages) + countTokens(schemaText),
    maxOutputTokens,
    format,
    rounds: Math.min(maxRounds, call.maxRounds ?? (tools.length === 0 ? 1 : settings.chat?.maxRounds ?? defaultMaxRounds))
  }
}
