/** `tools/list` and `tools/call`. */
import type * as Sdk from '@modelcontextprotocol/server'
import type { FastifyRequest } from 'fastify'
import { TenantryError } from '../../lib/errors.js'
import type { ResponseEnd } from '../../lib/http/route-reply.js'
import type { FoundTool, ListedTool, Tool, ToolResult, Tools } from '../tools/types.js'
import type { DocumentSource } from './documents.js'
import { pageAfter } from './page.js'

/** Bytes of a call's result. A larger result becomes an error that says so. */
export const maxResult = 1_048_576

export interface McpContext {
  readonly sdk: typeof Sdk
  readonly tools: Tools
  /** The documents that are resources; null without them. */
  readonly documents: DocumentSource | null
  readonly caller: FastifyRequest
  /** The response to the message. */
  readonly response: ResponseEnd
}

export function addTools (server: Sdk.Server, context: McpContext): void {
  const { sdk, tools, caller } = context
  server.setRequestHandler('tools/list', async ({ params }) => {
    const { items, ...next } = await listPage(context, params?.cursor)
    return { tools: items.map(({ shown }) => shown), ...next }
  })

  server.setRequestHandler('tools/call', async ({ params: { name, arguments: input } }) => {
    const found = await tools.open(name, caller)
    if (found === null) throw unknownTool(sdk)
    return server.projectCallToolResult(await resultOf(context, found, input), found.tool.outputSchema)
  })
}

/** A page of the tools that the caller may call. Leaves out tools that do not fit the tables. */
export async function listPage (
  { sdk, tools, caller }: McpContext,
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
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'There is no tool with this name that you can call')
}

async function resultOf ({ caller, response }: McpContext, found: FoundTool, input: unknown): Promise<Sdk.CallToolResult> {
  try {
    const result = await found.answer(input, { response, maxBytes: maxResult })
    const content: Sdk.CallToolResult['content'] = [{ type: 'text', text: textOf(result) }]
    const structured = structuredOf(result, found.tool.outputSchema)
    return structured === undefined ? { content } : { content, structuredContent: JSON.parse(structured) }
  } catch (error) {
    return { isError: true, content: [{ type: 'text', text: errorText(error, caller) }] }
  }
}

/** The text of the response; `null` without a body. A JSON string is decoded. */
export function textOf ({ text, isJson }: ToolResult): string {
  if (text === '') return 'null'
  return isJson && text.startsWith('"') ? String(JSON.parse(text)) : text
}

/** The structured content as JSON text; undefined for none. Clients refuse the result of a tool with an output schema without it. */
export function structuredOf ({ text, isJson }: ToolResult, outputSchema: Tool['outputSchema']): string | undefined {
  if (isJson) return text
  if (outputSchema === undefined) return undefined
  return text === '' ? 'null' : JSON.stringify(text)
}

/** The error that a model may see. Details of internal errors go only to the log. */
export function errorText (error: unknown, { log }: FastifyRequest): string {
  if (error instanceof TenantryError) return `${error.message} (${error.code})`
  log.error({ err: error }, 'the call of a tool failed')
  return 'The tool failed'
}

interface Shown {
  readonly shown: Sdk.Tool
  readonly json: string
}

/** Each tool is converted once per generation of a document. */
const known = new WeakMap<Tool, Shown>()

/** null if the route does not fit the tables of the database. */
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
