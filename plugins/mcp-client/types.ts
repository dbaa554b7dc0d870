/** Tools of other MCP servers. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../../lib/database/audit.js'
import type { ModelTool, ToolSource } from '../../lib/models/types.js'

export type ServerStatus = 'up' | 'down' | 'idle'

export interface ServerInfo {
  readonly name: string
  readonly transport: 'stdio' | 'http'
  /** For the tenant. `idle`: it starts with the next call. `down`: it failed, and starts again after a while. */
  readonly status: ServerStatus
  /** Tools that were listed last; 0 if none were. */
  readonly tools: number
}

export interface ServerTool {
  readonly server: string
  readonly name: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
}

export interface Execution {
  /** Never empty. */
  readonly tenant: Owner
  readonly actor: Actor
  readonly server: string
  readonly tool: string
  readonly args: unknown
  /** Tool calls that this one is within. */
  readonly depth: number
  readonly signal: AbortSignal
}

export interface ToolResult {
  readonly content: readonly unknown[]
  /** The tool says that it failed. */
  readonly isError: boolean
  readonly structuredContent?: unknown
}

/** For whom tools are called. */
export interface ToolUser extends Pick<Execution, 'tenant' | 'actor' | 'depth'> {
  /** Ends the wait for the lists of tools. */
  readonly signal: AbortSignal
}

/** What `app.mcpServers` is. */
export interface McpServers extends ToolSource {
  servers(tenant: string): ServerInfo[]
  /** The tools of all servers. Starts those that are idle; a server that fails is left out. */
  tools(tenant: string, signal: AbortSignal): Promise<ServerTool[]>
  /** Names of all tools, as `server.tool`. */
  names(request: FastifyRequest): Promise<string[]>
  /** Tools by their names, `server.tool`, for callers without a request. Names that no server has are left out. */
  toolsFor(names: readonly string[], user: ToolUser): Promise<ReadonlyMap<string, ModelTool>>
  /** Rejects with `notFound`, `validationFailed`, `toolsNested`, `toolFailed` and `toolTimeout`. */
  execute(execution: Execution): Promise<ToolResult>
}
