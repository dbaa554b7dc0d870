/** What `app.mcpServers` offers. */
import type { FastifyBaseLogger } from 'fastify'
import type { McpServer } from '../../lib/config/schema/agent.js'
import type { AuditEntry } from '../../lib/audit.js'
import type { ModelTool } from '../../lib/models/types.js'
import type { Connection } from './connection.js'
import type { CountCall } from './figures.js'
import type { Pool } from './pool.js'
import type { McpServers, ServerTool, ToolResult, ToolUser } from './types.js'
import type { RemoteTool } from './remote-tool.js'
import { failure } from '../../lib/errors.js'
import { isExact } from '../../lib/json/exact-number.js'
import { isRecord } from '../../lib/plain-value.js'
import { actorOf } from '../audit/actor.js'
import { modelName } from './remote-tool.js'

const defaultTimeout = 30_000 // ms
const maxDepth = 3 // calls of tools within each other

export interface ServiceParts {
  readonly servers: readonly McpServer[]
  readonly pool: Pool
  readonly audit: (entry: AuditEntry) => Promise<void>
  readonly count: CountCall
  readonly log: FastifyBaseLogger
  readonly now: () => number
}

export function createMcpServers ({ servers, pool, audit, count, log, now }: ServiceParts): McpServers {
  const byName = new Map(servers.map((server) => [server.name, server]))

  /** Waits for a start, and for other tenants whose processes are busy, as long as for the answer of a tool. */
  async function use<Result> (server: McpServer, tenant: string, signal: AbortSignal, work: (connection: Connection, signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const { timeoutMs = defaultTimeout } = server
    const late = AbortSignal.timeout(timeoutMs)
    const over = AbortSignal.any([signal, late])
    try {
      // The call has a time-out of its own.
      return await pool.use(server, tenant, over, (connection) => work(connection, signal))
    } catch (error) {
      signal.throwIfAborted()
      if (error === late.reason) throw failure('toolTimeout', { cause: error })
      throw error
    }
  }

  async function toolsOf (server: McpServer, tenant: string, signal: AbortSignal): Promise<ReadonlyMap<string, RemoteTool>> {
    return await use(server, tenant, signal, (connection) => connection.tools(signal))
  }

  /** Empty for a server that fails. */
  async function knownTools (server: McpServer, tenant: string, signal: AbortSignal): Promise<ReadonlyMap<string, RemoteTool>> {
    try {
      return await toolsOf(server, tenant, signal)
    } catch (err) {
      signal.throwIfAborted()
      log.debug({ err, server: server.name, tenant }, 'the tools of an MCP server cannot be listed')
      return new Map()
    }
  }

  async function allTools (tenant: string, signal: AbortSignal): Promise<ServerTool[]> {
    const lists = await Promise.all(servers.map(async (server) => {
      const tools = await knownTools(server, tenant, signal)
      return Array.from(tools.values(), ({ name, description, inputSchema }) => ({ server: server.name, name, description, inputSchema }))
    }))
    return lists.flat()
  }

  const service: McpServers = {
    servers: (tenant) => servers.map((server) => ({ name: server.name, transport: server.command === undefined ? 'http' : 'stdio', ...pool.status(server, tenant) })),
    tools: allTools,

    async names ({ tenant, signal }) {
      if (servers.length === 0 || tenant === null || tenant === undefined) return []
      return (await allTools(tenant.id, signal)).map(({ server, name }) => `${server}.${name}`)
    },

    async execute ({ tenant, actor, server: serverName, tool: toolName, args, depth, signal }) {
      const server = byName.get(serverName)
      if (server === undefined) throw failure('notFound', { message: 'There is no MCP server of this name' })
      if (depth >= maxDepth) throw failure('toolsNested')
      return await use(server, tenant, signal, async (connection) => {
        const tool = (await connection.tools(signal)).get(toolName)
        if (tool === undefined) throw failure('notFound', { message: 'The MCP server has no tool of this name' })
        const given = checked(tool, args)
        let result: ToolResult | undefined
        try {
          result = await connection.call(toolName, { args: given, depth: depth + 1, signal })
          return result
        } finally {
          const isOk = result?.isError === false
          count(serverName, isOk ? 'ok' : 'failed')
          await audit({ tenant, action: 'mcp.execute', actor, target: `${serverName}.${toolName}`, outcome: isOk ? 'success' : 'failure', at: new Date(now()) })
        }
      })
    },

    async resolve (names, request) {
      const { tenant, toolDepth: depth, signal } = request
      if (tenant === null || tenant === undefined) return new Map()
      return await service.toolsFor(names, { tenant: tenant.id, actor: actorOf(request), depth, signal })
    },

    async toolsFor (names, user) {
      const found = new Map<string, ModelTool>()
      const wanted = names.flatMap((name) => {
        const [serverName = ''] = name.split('.', 1)
        const server = byName.get(serverName)
        return server === undefined || !name.includes('.') ? [] : [{ name, server, tool: name.slice(serverName.length + 1) }]
      })
      const asked = [...new Set(wanted.map(({ server }) => server))]
      const lists = new Map(await Promise.all(asked.map(async (server) => [server, await knownTools(server, user.tenant, user.signal)] as const)))
      for (const { name, server, tool: toolName } of wanted) {
        const tool = lists.get(server)?.get(toolName)
        if (tool !== undefined) found.set(name, modelToolOf(server.name, tool, user))
      }
      return found
    }
  }

  function modelToolOf (server: string, { name, description, inputSchema }: RemoteTool, { tenant, actor, depth }: ToolUser): ModelTool {
    return {
      name: modelName(server, name),
      description,
      inputSchema,
      async run (args, signal) {
        const { content, isError, structuredContent } = await service.execute({ tenant, actor, server, tool: name, args, depth, signal })
        // Images and the like are no text that a model could read here.
        const texts = content.flatMap((part) => isRecord(part) && typeof part['text'] === 'string' ? [part['text']] : [])
        if (isError) throw failure('toolFailed', { message: texts.join('\n').slice(0, 1000) })
        return structuredContent ?? texts.join('\n')
      }
    }
  }

  return service
}

/** Throws `validationFailed`, and `toolFailed` for a tool whose schema is none. */
function checked (tool: RemoteTool, args: unknown): Readonly<Record<string, unknown>> {
  const given = withNumbers(args ?? {})
  let details
  try {
    details = tool.faultsOf(given)
  } catch (cause) {
    throw failure('toolFailed', { message: 'The schema of the tool cannot be read', cause })
  }
  if (!isRecord(given)) throw failure('validationFailed', { extras: { details: [{ path: '/body/args', message: 'must be an object', keyword: 'type' }] } })
  if (details.length > 0) throw failure('validationFailed', { extras: { details } })
  return given
}

/** Other programs read doubles. */
function withNumbers (value: unknown): unknown {
  if (isExact(value)) return Number(value)
  if (Array.isArray(value)) return value.map(withNumbers)
  return isRecord(value) ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withNumbers(member)])) : value
}
