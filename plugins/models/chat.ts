/** Calls of the chat model: requests to the provider in rounds, with the runs of tools between them. */
import { randomUUID } from 'node:crypto'
import type { LanguageModelV3Prompt } from '@ai-sdk/provider'
import { inTurnOf } from '../../lib/concurrency/event-loop-yielder.js'
import { failure } from '../../lib/errors.js'
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import { markCharged } from '../../lib/models/failures.js'
import type { HeldImages } from '../../lib/models/images.js'
import { promptOf } from '../../lib/models/prompt.js'
import type { ResponseFormat } from '../../lib/models/response-format.js'
import type { Received } from '../../lib/models/round.js'
import { addUsage, noUsage } from '../../lib/models/tokens.js'
import type { ChatCall, ChatEvent, ChatResult, ModelInfo, ModelUsage, ToolCallOutcome } from '../../lib/models/types.js'
import { presentTenant, requireSameLife } from '../tenancy/tenant.js'
import type { Payer } from './charges.js'
import { ChatRound, type TimeBound } from './chat-round.js'
import { type ChatParts, prepareCall, type PreparedCall } from './prepared-call.js'
import { minResultTokens, runTools } from './tools.js'

export type Chat = (call: ChatCall, bound: TimeBound) => AsyncIterableIterator<ChatEvent>

export function createChat (parts: ChatParts): Chat {
  return (call, bound) => {
    const gone = new AbortController()
    const events = converse(parts, { ...call, signal: AbortSignal.any([call.signal, gone.signal]) }, bound)
    return {
      next: () => events.next(),
      // A generator handles `return` only after its `next` has settled.
      return () {
        gone.abort(failure('stopping', { message: 'The caller disconnected' }))
        return events.return(undefined)
      },
      [Symbol.asyncIterator] () {
        return this
      }
    }
  }
}

type ChatEvents = AsyncGenerator<ChatEvent, void, undefined>

async function * converse (parts: ChatParts, call: ChatCall, bound: TimeBound): ChatEvents {
  const prepared = await inTurnOf(tenantRef(call.tenant), () => prepareCall(parts, call))
  const open = await openCall(parts, prepared.payer, call)
  try {
    yield * runRounds(parts, call, prepared, open, bound)
  } catch (error) {
    if (open.isCharged) markCharged(error)
    throw error
  } finally {
    await open.end()
  }
}

/** A call that counts, and has a slot. */
interface OpenCall {
  /** Aborts when the caller leaves, and when the app closes. */
  readonly signal: AbortSignal
  readonly apiKey: string
  readonly images: HeldImages
  /** Throws, or rejects with, `tenantUnknown` if the tenant was deleted since the start of the call. */
  requireTenant(): void | Promise<void>
  /** Whether a request of the call was charged. */
  isCharged: boolean
  /** Ends the call, which does not count if nothing was charged. */
  end(): Promise<void>
}

/** Counts the call, and takes its slot. Rejects with `tenantUnknown` for a later tenant than that of the call. */
async function openCall (
  { keys, charges, calls, images: memory, tenants }: ChatParts,
  payer: Payer,
  { life, signal }: Pick<ChatCall, 'life' | 'signal'>
): Promise<OpenCall> {
  const tenant = await presentTenant(tenants, payer.tenant, life)
  const apiKey = await keys.of(payer.tenant)
  const count = await charges.count(payer)
  const slot = await calls.begin(payer.tenant, signal).catch(async (error: unknown) => {
    await count.give()
    throw error
  })
  const images = memory.hold(payer.tenant)
  const open: OpenCall = {
    signal: slot.signal,
    apiKey,
    images,
    isCharged: false,
    requireTenant: () => requireSameLife(tenants, tenant),
    async end () {
      images.release()
      if (!open.isCharged) await count.give()
      slot.end()
    }
  }
  return open
}

/** The rounds of requests and tools. */
async function * runRounds (parts: ChatParts, call: ChatCall, prepared: PreparedCall, open: OpenCall, bound: TimeBound): ChatEvents {
  const { info, payer, format, rounds } = prepared
  const { apiKey, images, signal } = open
  const outcomes: ToolCallOutcome[] = []
  let prompt: LanguageModelV3Prompt | null = null
  let { promptTokens } = prepared
  let usage: ModelUsage = noUsage
  let text = ''
  for (let number = 1; ; number++) {
    // The key may be that of a later tenant by now, and the tools may have taken long.
    await open.requireTenant()
    const round = new ChatRound({ parts, prepared: { ...prepared, promptTokens }, apiKey, bound, signal })
    let hasEnded = false
    try {
      await round.reserve()
      prompt ??= promptOf(prepared.messages, await images.read(prepared.messages, signal))
      await round.start(prompt)
      if (number === 1) yield { type: 'begun' }
      for await (const delta of round.deltas()) yield { type: 'content', text: delta }
      hasEnded = true
    } finally {
      const used = await round.end({ hasEnded, hasLeft: signal.aborted })
      open.isCharged ||= used !== null
      if (used !== null) usage = addUsage(usage, used)
    }
    const { received } = round
    text += received.text
    promptTokens += received.tokens
    const room = (info.contextTokens ?? Infinity) - promptTokens - prepared.maxOutputTokens
    if (received.calls.length === 0 || number === rounds || room < received.calls.length * minResultTokens) {
      const made = () => resultOf(info, format, received, { text, toolCalls: outcomes, usage })
      const result = format === null ? made() : await inTurnOf(payer.tenant, made)
      logAnswer(parts, call, info, { rounds: number, finishReason: received.finishReason, usage, text })
      yield { type: 'usage', ...usage }
      yield { type: 'done', result }
      return
    }
    const results = await runTools(received.calls, call.tools ?? [], room, signal)
    prompt.push({ role: 'assistant', content: received.parts }, { role: 'tool', content: results.map(({ part }) => part) })
    promptTokens += results.reduce((sum, { tokens }) => sum + tokens, 0)
    for (const { outcome } of results) {
      outcomes.push(outcome)
      yield { type: 'tool', ...outcome }
    }
  }
}

interface Answer {
  readonly rounds: number
  readonly finishReason: Received['finishReason']
  readonly usage: ModelUsage
  readonly text: string
}

function logAnswer ({ log, settings }: ChatParts, { tenant, messages }: ChatCall, info: ModelInfo, { text, ...answer }: Answer): void {
  const prompts = settings.logPrompts === true && { messages, answer: text }
  log.info({ tenant, provider: info.provider, model: info.id, ...answer, ...prompts }, 'a model has answered')
}

/** Throws for a response that does not have the requested format. `text`: of all rounds. */
function resultOf (
  { id: model }: ModelInfo,
  format: ResponseFormat | null,
  received: Received,
  { text, toolCalls, usage }: Pick<ChatResult, 'text' | 'toolCalls' | 'usage'>
): ChatResult {
  return {
    id: randomUUID(),
    model,
    text: format === null ? text : received.text,
    ...format !== null && { object: format.parse(received.text) },
    finishReason: received.finishReason ?? 'other',
    toolCalls,
    usage
  }
}
