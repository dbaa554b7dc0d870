/** Answers messages of MCP clients. */
import type * as Sdk from '@modelcontextprotocol/server'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { leftOf } from '../../lib/http/caller-left.js'
import { isRecord } from '../../lib/json/plain-value.js'
import type { Mcp } from '../../lib/schema/mcp.js'
import { version } from '../../lib/version.js'
import { depthOf } from '../tools/nesting.js'
import { recogniser } from './common-message.js'
import { createDirect, type McpResponse } from './direct.js'
import type { DocumentSource } from './documents.js'
import { addPrompts } from './prompts.js'
import { addResources } from './resources.js'
import { addTools, type McpContext } from './tools.js'

const methodNotFound = -32601

/** Headers that the protocol reads. Only these reach its library. */
const read = ['accept', 'content-type', 'mcp-method', 'mcp-name', 'mcp-protocol-version'] as const

export type McpService = ReturnType<typeof createMcp>

/**
 * @param name the name of the server for clients
 * @param documents the documents that are resources; null without them
 */
export function createMcp (
  { tools, log }: FastifyInstance,
  sdk: typeof Sdk,
  name: string,
  { url, instructions, prompts = [] }: Mcp,
  documents: () => DocumentSource | null
) {
  const replies = new WeakMap<Request, FastifyReply>()
  const info = { name, version }
  const options = {
    capabilities: { tools: {}, resources: {}, ...prompts.length > 0 && { prompts: {} } },
    ...instructions !== undefined && { instructions }
  }

  const recognise = recogniser(sdk)
  const respond = createDirect(info, sdk.SERVER_INFO_META_KEY)

  const contextOf = ({ request, raw }: FastifyReply): McpContext => ({ sdk, tools, documents: documents(), caller: request, response: raw })

  // The library requires a server for each request.
  const handler = sdk.createMcpHandler(({ requestInfo }) => {
    const reply = requestInfo && replies.get(requestInfo)
    if (reply === undefined) throw new Error('an MCP server was requested outside a request')
    const server = new sdk.Server(info, options)
    const context = contextOf(reply)
    addTools(server, context)
    addResources(server, context)
    if (prompts.length > 0) addPrompts(server, sdk, prompts)
    return server
  }, { keepAliveMs: 0, onerror: (err) => log.debug({ err }, 'a message of an MCP client was refused') })

  return {
    async handle (request: FastifyRequest, reply: FastifyReply): Promise<McpResponse> {
      const { body, headers } = request
      // A subscription would hold a connection open, though tools change only with the tenant's document.
      if (isRecord(body) && body['method'] === 'subscriptions/listen') return refused(body['id'])
      // The caller may be another server of this package, within a tool call of its own.
      const depth = depthOf(body)
      if (depth > request.toolDepth) request.toolDepth = depth
      const common = recognise(body, headers)
      const ready = common && await respond(common, contextOf(reply))
      if (ready !== null) return ready
      const message = new Request(`${url}/mcp`, {
        method: 'POST',
        headers: read.flatMap((name) => headers[name] === undefined ? [] : [[name, String(headers[name])]]),
        signal: leftOf(reply)
      })
      replies.set(message, reply)
      const response = await handler.fetch(message, { parsedBody: body })
      const type = response.headers.get('content-type')
      return { status: response.status, headers: type === null ? {} : { 'content-type': type }, body: await response.text() }
    },

    close: () => handler.close()
  }
}

function refused (id: unknown): McpResponse {
  const body = {
    jsonrpc: '2.0',
    id: typeof id === 'string' || typeof id === 'number' ? id : null,
    error: { code: methodNotFound, message: 'Method not found: this server does not support subscriptions' }
  }
  return { status: 404, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}
