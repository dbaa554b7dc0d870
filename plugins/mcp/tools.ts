/** `tools/list` and `tools/call`. */
import type * as Sdk from '@modelcontextprotocol/server'
import type { FastifyRequest } from 'fastify'
import type { FoundTool, ListedTool, Tool, ToolAnswer, Tools } from '../tools/types.js'
import type { DocumentSource } from './documents.js'
import { TenantryError } from '../../lib/errors.js'
import { pageAfter } from './page.js'

/** Bytes of the result of a call. A larger one is an error that says so. */
export const maxResult = 1_048_576

export interface Exchange {
  readonly sdk: typeof Sdk
  readonly tools: Tools
  /** Documents that are resources; null without them. */
  readonly documents: DocumentSource | null
  readonly caller: FastifyRequest
  /** Makes what is aborted when the caller leaves. */
  readonly signal: () => AbortSignal
}

export function addTools (server: Sdk.Server, exchange: Exchange): void {
  const { sdk, tools, caller } = exchange
  server.setRequestHandler('tools/list', async ({ params }) => {
    const { items, ...next } = await listPage(exchange, params?.cursor)
    return { tools: items.map(({ shown }) => shown), ...next }
  })

  server.setRequestHandler('tools/call', async ({ params: { name, arguments: input } }) => {
    const found = await tools.open(name, caller)
    if (found === null) throw unknownTool(sdk)
    return server.projectCallToolResult(await resultOf(exchange, found, input), found.tool.outputSchema)
  })
}

/** A page of the tools that the caller may call. Tools whose tables do not fit are left out of it. */
export async function listPage (
  { sdk, tools, caller }: Exchange,
  cursor: string | undefined
): Promise<{ items: Shown[], nextCursor?: string }> {
  const { items, ...next } = pageAfter(
    sdk,
    await tools.listed(caller),
    cursor,
    ({ name }) => name,
    (listed) => shownOf(listed)?.json.length ?? 0
  )
  return { items: items.flatMap((listed) => shownOf(listed) ?? []), ...next }
}

export function unknownTool (sdk: typeof Sdk): Error {
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'There is no tool of this name that you may call')
}

async function resultOf ({ caller, signal }: Exchange, found: FoundTool, input: unknown): Promise<Sdk.CallToolResult> {
  try {
    const answer = await found.answer(input, { signal, maxBytes: maxResult })
    const content: Sdk.CallToolResult['content'] = [{ type: 'text', text: textOf(answer) }]
    const value: unknown = answer.isJson ? JSON.parse(answer.text) : null
    return typeof value === 'string' || value === null ? { content } : { content, structuredContent: value }
  } catch (error) {
    return { isError: true, content: [{ type: 'text', text: errorText(error, caller) }] }
  }
}

/** As the response of the route has it; `null` without a body. A text in JSON is the text itself. */
export function textOf ({ text, isJson }: ToolAnswer): string {
  if (text === '') return 'null'
  return isJson && text.startsWith('"') ? String(JSON.parse(text)) : text
}

/** What a model can do about it. Nothing of what went wrong inside. */
export function errorText (error: unknown, { log }: FastifyRequest): string {
  if (error instanceof TenantryError) return `${error.message} (${error.code})`
  log.error({ err: error }, 'the call of a tool failed')
  return 'The tool failed'
}

export interface Shown {
  readonly shown: Sdk.Tool
  readonly json: string
}

/** Tools are compiled once for each generation of a document. */
const known = new WeakMap<Tool, Shown>()

/** null for a route that the tables of the database do not fit. */
function shownOf (listed: ListedTool): Shown | null {
  const tool = listed.tool()
  if (tool === null) return null
  const entry = known.get(tool) ?? show(tool)
  known.set(tool, entry)
  return entry
}

function show ({ name, description, inputSchema, outputSchema, readOnly, destructive }: Tool): Shown {
  const shown: Sdk.Tool = {
    name,
    description,
    inputSchema: { ...inputSchema, type: 'object' },
    ...outputSchema !== undefined && { outputSchema },
    annotations: { readOnlyHint: readOnly, destructiveHint: destructive }
  }
  return { shown, json: JSON.stringify(shown) }
}
