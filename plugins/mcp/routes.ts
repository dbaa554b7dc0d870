/** `POST /mcp`, and the metadata that tells OAuth clients where to get a token (RFC 9728). */
import { Type } from 'typebox'
import { errorResponses, errorSchemaId } from '../../lib/http/error-schemas.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { optional } from '../../lib/plugin/define.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { createGuard } from './guard.js'
import type { McpService } from './service.js'

const tags = ['MCP']

const Id = Type.Union([Type.String(), Type.Integer(), Type.Null()])
const RpcError = Type.Object({ code: Type.Integer(), message: Type.String(), data: Type.Optional(Type.Unknown()) })

const JsonRpcMessage = Type.Object({
  jsonrpc: Type.Literal('2.0'),
  method: Type.Optional(Type.String({ description: 'The method, such as `tools/list`. A response has no method.' })),
  id: Type.Optional(Type.Unknown({ description: 'The id of the request. A notification has no id.' })),
  params: Type.Optional(Type.Unknown())
}, { description: 'A JSON-RPC message.', additionalProperties: true })

const JsonRpcResponse = Type.Object({
  jsonrpc: Type.Literal('2.0'),
  id: Id,
  result: Type.Optional(Type.Unknown()),
  error: Type.Optional(RpcError)
}, { description: 'The response to a request. Clients of older versions receive it as one server-sent event.' })

/** A message that the protocol refuses has an error of JSON-RPC; other requests have one of this server. */
const refusedMessage = (description: string) =>
  Type.Union([
    Type.Ref(`${errorSchemaId}#`),
    Type.Object({ jsonrpc: Type.Literal('2.0'), id: Id, error: RpcError })
  ], { description })

const ResourceMetadata = Type.Object({
  resource: Type.String({ description: 'The resource for which clients request tokens.' }),
  authorization_servers: Type.Optional(Type.Array(Type.String(), { description: 'The issuers of the tokens that the server accepts.' })),
  bearer_methods_supported: Type.Array(Type.String()),
  resource_name: Type.String()
})

/**
 * @param url the public address of the server
 * @param name the name of the app, for users
 */
export function mcpRoutes (app: FastifyGroup, service: McpService, url: string, name: string, issuers: readonly string[]): void {
  const base = url + prefixOf(app)
  const resource = `${base}/mcp`
  const guard = createGuard(url, optional(app, 'origins'), `${base}/.well-known/oauth-protected-resource/mcp`)

  app.post('/mcp', {
    // An empty schema rejects query parameters, see lib/plugin/define.ts. The message has no validator here: compiling it would take a
    // fifth of the time of the first message.
    schema: {},
    config: {
      access: 'user',
      exposedHeaders: 'www-authenticate',
      openapi: {
        tags,
        summary: 'Call the API as an MCP client',
        description:
          'Accepts a message of the Model Context Protocol 2026-07-28, or of an older version, over streamable HTTP without sessions. The tools are the routes with `mcp` that the caller can call. Batches of messages are rejected.',
        body: JsonRpcMessage,
        response: {
          200: JsonRpcResponse,
          202: Type.Null({ description: 'The message was a notification, which has no response.' }),
          ...errorResponses(401, 403, 413, 415, 429, 500, 503),
          400: refusedMessage('The message is not valid, or its version of the protocol is unknown.'),
          404: refusedMessage('The method would hold the connection open: `subscriptions/listen`.'),
          406: refusedMessage('The client does not accept both `application/json` and `text/event-stream`.')
        }
      }
    },
    onRequest: guard.checkHost,
    preHandler: guard.checkOrigin,
    onSend: guard.challenge
  }, async (request, reply) => {
    requireMessage(request.body)
    const { status, headers, body } = await service.handle(request, reply)
    return reply.code(status).headers(headers).serializer(String).send(body)
  })

  const metadata = {
    resource,
    ...issuers.length > 0 && { authorization_servers: [...issuers] },
    bearer_methods_supported: ['header'],
    resource_name: name
  }
  app.get('/.well-known/oauth-protected-resource/mcp', {
    config: { access: 'public' },
    schema: {
      tags,
      summary: 'Retrieve the OAuth metadata for MCP clients',
      response: { 200: ResourceMetadata, ...errorResponses(429, 500) }
    }
  }, async (_request, reply) => reply.header('cache-control', 'public, max-age=3600').send(metadata))
}

/** Throws `validationFailed` for a body that is not one JSON-RPC message. The protocol's own schemas validate its other members. */
function requireMessage (body: unknown): void {
  if (!isRecord(body)) throw invalidInput('/body', 'must be a JSON-RPC message', 'type')
  const { jsonrpc, method } = body
  if (jsonrpc !== '2.0') throw invalidInput('/body/jsonrpc', 'must be "2.0"', 'const')
  if (method !== undefined && typeof method !== 'string') throw invalidInput('/body/method', 'must be a string', 'type')
}
