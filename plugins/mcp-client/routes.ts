/** The endpoints under `/agent/mcp`. */
import type { FastifyInstance } from 'fastify'
import type { McpServers } from './types.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { pageOf, slice } from '../../lib/http/page.js'
import { actorOf } from '../auth/actor.js'
import { leftOf } from '../../lib/http/caller-left.js'
import { tenantOf } from '../tenancy/required.js'
import { ExecuteResponse, ExecuteBody, ServerList, ServerQuery, ToolList } from './schemas.js'

const tags = ['MCP']
const config = { access: 'user' } as const
const refusals = [400, 401, 403, 429, 500, 503] as const

export function mcpClientRoutes (app: FastifyInstance, service: McpServers): void {
  app.get<{ Querystring: ServerQuery }>('/agent/mcp/servers', {
    config,
    schema: {
      tags,
      summary: 'List MCP servers',
      querystring: ServerQuery,
      response: { 200: ServerList, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const page = pageOf(request)
    const servers = service.servers(tenantOf(request))
    return { data: slice(servers, page), pagination: { ...page, total: servers.length } }
  })

  app.get('/agent/mcp/tools', {
    config,
    schema: {
      tags,
      summary: 'List tools of the MCP servers',
      description: 'Starts idle servers. The list omits servers that fail.',
      response: { 200: ToolList, ...errorResponses(...refusals, 504) }
    }
  }, async (request, reply) => ({ tools: await service.tools(tenantOf(request), leftOf(reply)) }))

  app.post<{ Body: ExecuteBody }>('/agent/mcp/execute', {
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
    const { content, ...result } = await service.execute({
      tenant: tenantOf(request),
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
