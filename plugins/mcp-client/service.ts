/** `app.mcpServers`: tools of other MCP servers. */
import type { FastifyInstance } from 'fastify'
import { inTurnOf } from '../../lib/concurrency/event-loop-yielder.js'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { noteAudit } from '../../lib/database/audit.js'
import { failure, isFailure } from '../../lib/errors.js'
import { type Owner, type TenantLife, tenantOfLife, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isRecord, mapExact } from '../../lib/json/plain-value.js'
import type { ModelTool } from '../../lib/models/types.js'
import type { McpServer } from '../../lib/schema/agent.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { actorOf } from '../auth/actor.js'
import { createCounter } from '../metrics/counter.js'
import { presentTenant } from '../tenancy/tenant.js'
import { depthWithin } from '../tools/nesting.js'
import { modelName, type RemoteTool } from './connection.js'
import type { Pool } from './pool.js'
import type { McpServers, ServerTool, ToolResult, ToolUser } from './types.js'

const maxOfTenant = 100 // calls and lists in progress, including those that wait for a connection
const maxInAll = 2000
const later = { headers: { 'retry-after': '1' } }

/** @param now the clock, in milliseconds since 1970 */
export function createMcpServers (app: FastifyInstance, servers: readonly McpServer[], pool: Pool, now: () => number): McpServers {
  const { engine, log, tenants } = app
  const count = createCounter(app, {
    name: 'tenantry_mcp_calls_total',
    help: 'Calls of tools of MCP servers, by server and outcome.',
    labelNames: ['server', 'outcome']
  })
  const byName = new Map(servers.map((server) => [server.name, server]))
  const places = createTenantLimiter({ maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll: () => failure('toolsBusy', later) })

  /** Rejects with `tenantUnknown` without the tenant, or for a later one with its id. */
  async function lifeOf (id: Owner, life?: TenantLife): Promise<TenantLife> {
    return (await presentTenant(tenants, id, life)).life
  }

  /** Empty if the server fails. Rejects with `toolsBusy`, since a list without the server's tools would be wrong, and `tenantUnknown`. */
  async function knownTools (server: McpServer, tenant: TenantLife, signal: AbortSignal): Promise<ReadonlyMap<string, RemoteTool>> {
    try {
      return await pool.use(server, tenant, signal, (connection) => connection.tools(signal))
    } catch (err) {
      signal.throwIfAborted()
      if (isFailure(err, 'toolsBusy') || isFailure(err, 'tenantUnknown')) throw err
      log.debug({ err, server: server.name, tenant: tenantOfLife(tenant) }, 'the tools of an MCP server cannot be listed')
      return new Map()
    }
  }

  /** Listing the tools of several servers counts as one call of the tenant. */
  async function listsOf (
    asked: readonly McpServer[],
    tenant: Owner,
    life: TenantLife,
    signal: AbortSignal
  ): Promise<Array<readonly [McpServer, ReadonlyMap<string, RemoteTool>]>> {
    return await places.run(
      tenant,
      () => Promise.all(asked.map(async (server) => [server, await knownTools(server, life, signal)] as const))
    )
  }

  async function allTools (tenant: Owner, signal: AbortSignal): Promise<ServerTool[]> {
    if (servers.length === 0) return []
    const lists = await listsOf(servers, tenant, await lifeOf(tenant), signal)
    return lists.flatMap(([server, tools]) =>
      Array.from(tools.values(), ({ name, description, inputSchema }) => ({ server: server.name, name, description, inputSchema }))
    )
  }

  const service: McpServers = {
    async servers (tenant) {
      const life = await lifeOf(tenantRef(tenant))
      return servers.map((server) => ({
        name: server.name,
        transport: server.command === undefined ? 'http' : 'stdio',
        ...pool.status(server, life)
      }))
    },
    tools: allTools,

    async names ({ tenant, signal }) {
      if (servers.length === 0 || tenant === null || tenant === undefined) return []
      return (await allTools(tenant.id, signal)).map(({ server, name }) => `${server}.${name}`)
    },

    async execute ({ tenant, life, actor, server: serverName, tool: toolName, args, depth, signal }) {
      const server = byName.get(serverName)
      if (server === undefined) throw failure('notFound', { message: 'There is no MCP server with this name' })
      const inner = depthWithin({ toolDepth: depth })
      return await places.run(tenant, async () => {
        const known = await lifeOf(tenant, life)
        return await pool.use(server, known, signal, async (connection) => {
          const tool = (await connection.tools(signal)).get(toolName)
          if (tool === undefined) throw failure('notFound', { message: 'The MCP server has no tool with this name' })
          const given = await inTurnOf(tenant, () => checked(tool, args))
          let result: ToolResult | undefined
          try {
            result = await connection.call(toolName, { args: given, depth: inner, signal })
            return result
          } finally {
            const isOk = result?.isError === false
            count({ server: serverName, outcome: isOk ? 'ok' : 'failed' })
            await noteAudit({ engine, log }, {
              tenant,
              life: known,
              action: 'mcp.execute',
              actor,
              target: `${serverName}.${toolName}`,
              outcome: isOk ? 'success' : 'failure',
              at: new Date(now())
            })
          }
        })
      })
    },

    async resolve (names, request) {
      const { tenant, toolDepth: depth, signal } = request
      if (tenant === null || tenant === undefined) return new Map()
      return await service.toolsFor(names, { tenant: tenant.id, life: tenant.life, actor: actorOf(request), depth, signal })
    },

    async toolsFor (names, user) {
      const found = new Map<string, ModelTool>()
      const wanted = names.flatMap((name) => {
        const [serverName = ''] = name.split('.', 1)
        const server = byName.get(serverName)
        return server === undefined || !name.includes('.') ? [] : [{ name, server, tool: name.slice(serverName.length + 1) }]
      })
      if (wanted.length === 0) return found
      const asked = [...new Set(wanted.map(({ server }) => server))]
      const life = await lifeOf(user.tenant, user.life)
      const lists = new Map(await listsOf(asked, user.tenant, life, user.signal))
      for (const { name, server, tool: toolName } of wanted) {
        const tool = lists.get(server)?.get(toolName)
        if (tool !== undefined) found.set(name, modelToolOf(server.name, tool, { ...user, life }))
      }
      return found
    }
  }

  function modelToolOf (server: string, { name, description, inputSchema }: RemoteTool, { signal: _signal, ...user }: ToolUser): ModelTool {
    return {
      name: modelName(server, name),
      description,
      inputSchema,
      async run (args, signal) {
        const { content, isError, structuredContent } = await service.execute({ ...user, server, tool: name, args, signal })
        // Models cannot read other content here, such as images.
        const texts = content.flatMap((part) => isRecord(part) && typeof part['text'] === 'string' ? [part['text']] : [])
        if (isError) throw failure('toolFailed', { message: texts.join('\n').slice(0, 1000) })
        return structuredContent ?? texts.join('\n')
      }
    }
  }

  return service
}

/** Throws `validationFailed`. */
function checked (tool: RemoteTool, args: unknown): Readonly<Record<string, unknown>> {
  // As doubles, as other programs read them.
  const given = mapExact(args ?? {}, Number)
  const details = tool.faultsOf(given)
  if (!isRecord(given)) throw invalidInput('/body/args', 'must be an object', 'type')
  if (details.length > 0) throw failure('validationFailed', { extras: { details } })
  return given
}

function tooManyOfTenant (): Error {
  return failure('toolsBusy', {
    message: `Too many calls of tools: at most ${maxOfTenant} can run for each tenant; wait until one has finished`,
    ...later
  })
}
