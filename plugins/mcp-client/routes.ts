/** The endpoints under `/agent/mcp`. */
import { Type } from 'typebox'
import { leftOf } from '../../lib/http/caller-left.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageIn, pageOf, pageQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf } from '../auth/actor.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import type { McpServers } from './types.js'

const tags = ['MCP']
const config = { access: 'user' } as const
const refusals = [400, 401, 403, 429, 500, 503] as const

export function mcpClientRoutes (app: FastifyGroup, service: McpServers): void {
  app.get('/agent/mcp/servers', {
    config,
    schema: {
      tags,
      summary: 'List MCP servers',
      querystring: ServerQuery,
      response: { 200: ServerList, ...errorResponses(...refusals) }
    }
  }, async (request) => pageIn(await service.servers(tenantOf(request)), pageOf(request)))

  app.get('/agent/mcp/tools', {
    config,
    schema: {
      tags,
      summary: 'List tools of the MCP servers',
      description: 'Starts idle servers. The list omits servers that fail.',
      response: { 200: ToolList, ...errorResponses(...refusals, 404, 504) }
    }
  }, async (request, reply) => ({ tools: await service.tools(tenantOf(request), leftOf(reply)) }))

  app.post('/agent/mcp/execute', {
    config,
    schema: {
      tags,
      summary: 'Call a tool of an MCP server',
      description:
        "The arguments are validated with the tool's schema before the call. If the tool reports a failure, the response has status 200 and `isError`.",
      body: ExecuteBody,
      response: { 200: ExecuteResponse, ...errorResponses(...refusals, 404, 413, 415, 502, 504) }
    }
  }, async (request, reply) => {
    const { server, tool, args } = request.body
    const { id: tenant, life } = requiredTenant(request)
    const { content, ...result } = await service.execute({
      tenant,
      life,
      actor: actorOf(request),
      server,
      tool,
      args,
      depth: request.toolDepth ?? 0,
      signal: leftOf(reply)
    })
    return { content: [...content], ...result }
  })
}

const ServerQuery = ClosedObject(pageQuery('Servers'))
const ServerList = ListOf(named(
  'McpServer',
  Type.Object({
    name: Type.String(),
    transport: Type.Enum(['stdio', 'http']),
    status: Type.Enum(['up', 'down', 'idle'], {
      description:
        'The status of the server for the tenant. `idle`: it starts with the next call. `down`: it failed and is started again later.'
    }),
    tools: Type.Integer({ description: 'The number of tools listed last; 0 if they were never listed.' })
  })
))

const ToolList = Type.Object({
  tools: Type.Array(named(
    'McpTool',
    Type.Object({
      server: Type.String(),
      name: Type.String(),
      description: Type.String({ description: 'The description of the tool, as reported by the server.' }),
      inputSchema: Type.Unknown({ description: 'The JSON Schema of `args`.' })
    })
  ))
})

const ExecuteBody = ClosedObject({
  server: Type.String({ minLength: 1, maxLength: 64 }),
  tool: Type.String({ minLength: 1, maxLength: 200 }),
  args: Optional.Unknown("The arguments of the tool, as an object that matches the tool's schema. Default: `{}`.")
})

const ExecuteResponse = Type.Object({
  content: Type.Array(Type.Unknown(), {
    description: 'The parts of the result, of the type `text`, `image`, `audio`, `resource_link` or `resource`.'
  }),
  isError: Type.Boolean({ description: 'True if the tool reported a failure.' }),
  structuredContent: Type.Optional(Type.Unknown())
})
