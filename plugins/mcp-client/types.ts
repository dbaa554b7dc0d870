/** Tools of other MCP servers. */
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../../lib/database/audit.js'
import type { Owner, TenantLife } from '../../lib/identity/tenant-ref.js'
import type { ModelTool, ToolSource } from '../../lib/models/types.js'

export type ServerStatus = 'up' | 'down' | 'idle'

export interface ServerInfo {
  readonly name: string
  readonly transport: 'stdio' | 'http'
  /** The state for the tenant. `idle`: starts with the next call. `down`: failed, and starts again after a delay. */
  readonly status: ServerStatus
  /** The number of tools in the last list; 0 if none was read. */
  readonly tools: number
}

export interface ServerTool {
  readonly server: string
  readonly name: string
  /** Untrusted: another program wrote it. */
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
}

export interface Execution {
  /** Never empty. */
  readonly tenant: Owner
  /** As the caller found the tenant: a later tenant with its id gets `tenantUnknown`. Default: the present tenant. */
  readonly life?: TenantLife | undefined
  readonly actor: Actor
  readonly server: string
  readonly tool: string
  readonly args: unknown
  /** The number of tool calls around this one. */
  readonly depth: number
  readonly signal: AbortSignal
}

export interface ToolResult {
  readonly content: readonly unknown[]
  /** Whether the tool reports a failure. */
  readonly isError: boolean
  readonly structuredContent?: unknown
}

/** The caller of tools. */
export interface ToolUser extends Pick<Execution, 'tenant' | 'life' | 'actor' | 'depth'> {
  /** Ends the wait for the lists of tools. */
  readonly signal: AbortSignal
}

/** The type of `app.mcpServers`. */
export interface McpServers extends ToolSource {
  servers(tenant: string): Promise<ServerInfo[]>
  /** The tools of all servers. Starts idle servers. Leaves out servers that fail. */
  tools(tenant: string, signal: AbortSignal): Promise<ServerTool[]>
  /** The names of all tools, as `server.tool`. The signal ends the wait for the lists of tools. */
  names(caller: Pick<FastifyRequest, 'tenant' | 'signal'>): Promise<string[]>
  /** The tools with the given names (`server.tool`), for callers without a request. Omits unknown names. */
  toolsFor(names: readonly string[], user: ToolUser): Promise<ReadonlyMap<string, ModelTool>>
  /** Rejects with `notFound`, `tenantUnknown`, `validationFailed`, `toolsNested`, `toolFailed` and `toolTimeout`. */
  execute(execution: Execution): Promise<ToolResult>
}

declare module 'fastify' {
  interface FastifyInstance {
    mcpServers: McpServers
  }
}
