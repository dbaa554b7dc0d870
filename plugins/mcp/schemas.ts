/** Bodies of the MCP endpoints. */
import { Type } from 'typebox'
import { errorSchemaId } from '../../lib/http/error-schemas.js'

const Id = Type.Union([Type.String(), Type.Integer(), Type.Null()])
const RpcError = Type.Object({ code: Type.Integer(), message: Type.String(), data: Type.Optional(Type.Unknown()) })

export const JsonRpcMessage = Type.Object({
  jsonrpc: Type.Literal('2.0'),
  method: Type.Optional(Type.String({ description: 'The method, such as `tools/list`. A response has no method.' })),
  id: Type.Optional(Type.Unknown({ description: 'The id of the request. A notification has no id.' })),
  params: Type.Optional(Type.Unknown())
}, { description: 'A JSON-RPC message.', additionalProperties: true })

export const JsonRpcResponse = Type.Object({
  jsonrpc: Type.Literal('2.0'),
  id: Id,
  result: Type.Optional(Type.Unknown()),
  error: Type.Optional(RpcError)
}, { description: 'The response to a request. Clients of older versions receive it as one server-sent event.' })

/** A message that the protocol refuses has an error of JSON-RPC; other requests have one of this server. */
export const refusedMessage = (description: string) =>
  Type.Union([
    Type.Ref(`${errorSchemaId}#`),
    Type.Object({ jsonrpc: Type.Literal('2.0'), id: Id, error: RpcError })
  ], { description })

export const ResourceMetadata = Type.Object({
  resource: Type.String({ description: 'The resource for which clients request tokens.' }),
  authorization_servers: Type.Optional(Type.Array(Type.String(), { description: 'The issuers of the tokens that the server accepts.' })),
  bearer_methods_supported: Type.Array(Type.String()),
  resource_name: Type.String()
})
