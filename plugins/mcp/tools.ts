/** `tools/list` and `tools/call`. */
import type * as Sdk from '@modelcontextprotocol/server'
import type { FastifyRequest } from 'fastify'
import type { Tool, Tools } from '../tools/types.js'
import { TenantryError } from '../../lib/errors.js'
import { pageAfter } from './page.js'

/** Bytes of the result of a call. A larger one is an error that says so. */
export const maxResult = 1_048_576

export interface Exchange {
  readonly sdk: typeof Sdk
  readonly tools: Tools
  readonly caller: FastifyRequest
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal
}

export function addTools (server: Sdk.Server, { sdk, tools, caller, signal }: Exchange): void {
  server.setRequestHandler('tools/list', async ({ params }) => {
    const { items, nextCursor } = pageAfter(sdk, await tools.list(caller), params?.cursor, ({ name }) => name, sizeOf)
    return { tools: items.map((tool) => shownOf(tool).tool), ...nextCursor !== undefined && { nextCursor } }
  })

  server.setRequestHandler('tools/call', async ({ params: { name, arguments: input } }) => {
    const tool = await tools.find(name, caller)
    if (tool === null) throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'There is no tool of this name that you may call')
    const result = await resultOf(() => tools.call(name, input, caller, { signal, maxBytes: maxResult }), caller)
    return server.projectCallToolResult(result, tool.outputSchema)
  })
}

async function resultOf (call: () => Promise<unknown>, caller: FastifyRequest): Promise<Sdk.CallToolResult> {
  try {
    const value = await call()
    const content: Sdk.CallToolResult['content'] = [{ type: 'text', text: textOf(value) }]
    return typeof value === 'string' || value === null ? { content } : { content, structuredContent: value }
  } catch (error) {
    return { isError: true, content: [{ type: 'text', text: errorText(error, caller) }] }
  }
}

/** As the response of the route has it. */
export function textOf (value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** What a model can do about it. Nothing of what went wrong inside. */
export function errorText (error: unknown, { log }: FastifyRequest): string {
  if (error instanceof TenantryError) return `${error.message} (${error.code})`
  log.error({ err: error }, 'the call of a tool failed')
  return 'The tool failed'
}

interface Shown {
  readonly tool: Sdk.Tool
  /** Characters. */
  readonly size: number
}

/** Tools are made once for each generation of a document. */
const shown = new WeakMap<Tool, Shown>()

function shownOf (tool: Tool): Shown {
  const known = shown.get(tool)
  if (known !== undefined) return known
  const { name, description, inputSchema, outputSchema, readOnly, destructive } = tool
  const made: Sdk.Tool = {
    name,
    description,
    inputSchema: { ...inputSchema, type: 'object' },
    ...outputSchema !== undefined && { outputSchema },
    annotations: { readOnlyHint: readOnly, destructiveHint: destructive }
  }
  const entry = { tool: made, size: JSON.stringify(made).length }
  shown.set(tool, entry)
  return entry
}

function sizeOf (tool: Tool): number {
  return shownOf(tool).size
}
