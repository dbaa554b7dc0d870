/**
 * Answers common messages without the library. For each message, the library creates a server, web requests and responses, and
 * validated copies, which costs several times the CPU of the called route. The library answers all other messages.
 */
import { eventData } from '../../lib/http/event-data.js'
import type { CommonMessage } from './common-message.js'
import { errorText, listPage, maxResult, type McpContext, structuredOf, textOf, unknownTool } from './tools.js'

export interface McpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for a notification. */
  readonly body: string
}

/** @param server the name and version that clients see */
export function createDirect (server: { readonly name: string, readonly version: string }, serverInfoKey: string) {
  const modernEnd = `"resultType":"complete","_meta":${JSON.stringify({ [serverInfoKey]: server })}}`
  const cacheHints = '"ttlMs":0,"cacheScope":"private",'

  async function list (context: McpContext, isModern: boolean, cursor: string | undefined): Promise<string | null> {
    const { items, nextCursor } = await listPage(context, cursor)
    // Older versions of the protocol allow only objects.
    if (
      !isModern && items.some(({ shown: { outputSchema } }) => outputSchema !== undefined && outputSchema['type'] !== 'object')
    ) { return null }
    const next = nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(nextCursor)}`
    return `{"tools":[${items.map(({ json }) => json).join(',')}]${next}${isModern ? `,${cacheHints}${modernEnd}` : '}'}`
  }

  async function call (context: McpContext, isModern: boolean, name: string, input: unknown): Promise<string | null> {
    const { sdk, tools, caller, response } = context
    const end = isModern ? `,${modernEnd}` : '}'
    const found = await tools.open(name, caller)
    if (found === null) throw unknownTool(sdk)
    const { tool: { outputSchema } } = found
    if (!isModern && outputSchema !== undefined && outputSchema['type'] !== 'object') return null
    try {
      const output = await found.answer(input, { response, maxBytes: maxResult })
      const content = `{"content":[{"type":"text","text":${JSON.stringify(textOf(output))}}]`
      const text = structuredOf(output, outputSchema)
      if (text === undefined) return content + end
      return `${content},"structuredContent":${isModern || text.startsWith('{') ? text : `{"result":${text}}`}${end}`
    } catch (error) {
      return `{"isError":true,"content":[{"type":"text","text":${JSON.stringify(errorText(error, caller))}}]${end}`
    }
  }

  async function result (context: McpContext, { ask, isModern }: CommonMessage): Promise<string | null> {
    try {
      const result = ask.method === 'tools/list'
        ? await list(context, isModern, ask.cursor)
        : await call(context, isModern, ask.name, ask.input)
      return result === null ? null : `"result":${result}`
    } catch (error) {
      if (!(error instanceof context.sdk.ProtocolError)) throw error
      return `"error":${JSON.stringify({ code: error.code, message: error.message })}`
    }
  }

  /** null for a message that the library must answer. */
  return async (message: CommonMessage, context: McpContext): Promise<McpResponse | null> => {
    const own = await result(context, message)
    if (own === null) return null
    const text = `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},${own}}`
    if (message.isModern) return { status: 200, headers: { 'content-type': 'application/json' }, body: text }
    return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: `event: message\n${eventData(text)}` }
  }
}
