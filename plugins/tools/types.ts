/** Tools: routes that language models and MCP clients call with the rights of their caller. */
import type { FastifyRequest } from 'fastify'
import type { ToolDocumentation } from '../../lib/compiler/tool-shape.js'
import type { ToolDeclaration } from '../../lib/document/rules/tools.js'
import type { JsonSchema } from '../../lib/expressions/types.js'
import type { ResponseEnd, RouteReply } from '../../lib/http/route-reply.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ModelTool, ToolSource } from '../../lib/models/types.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { Access } from '../auth/access.js'
import type { Limit } from '../rate-limit/rules.js'

export type {} from './nesting.js'

/** A tool, as its callers see it. */
export interface Tool extends ToolDeclaration {
  /** The schema of the input: the parameters of the path and the query string, and `body`. */
  readonly inputSchema: JsonSchema
  /** The schema of the result, if the route has one. */
  readonly outputSchema?: JsonSchema
}

/** A tool in a list, as its route declares it. */
export interface ListedTool extends ToolDeclaration {
  /** The tool with its schemas, compiled if necessary. null if the route does not fit the tables of the database. */
  tool(): Tool | null
}

/** The response of a route to a call. */
export interface ToolResult {
  /** Numbers that a double cannot represent are strings in it. */
  readonly text: string
  /** Whether the text is JSON. An empty text is not. */
  readonly isJson: boolean
}

/** The requirements of a route on the callers of its tool. */
export interface ToolAccess {
  readonly access: Access
  /** Default: any provider. */
  readonly authProvider?: string | undefined
  readonly permission?: string | undefined
  readonly permissions: readonly string[]
  /** Whether a caller without a token may name a tenant. Default: true. */
  readonly publicTenant?: boolean | undefined
}

/** Runs a declared route for a call with a known identity, tenant and access. Resolves with the body as JSON text. */
export type ServeCall = (call: RouteCall, reply: RouteReply) => Promise<string>

/** A route that is a tool. */
export interface ToolRoute extends ToolAccess {
  readonly declared: ToolDeclaration
  readonly method: string
  /** With `:name` parameters, and with the prefix of the route's plugin. */
  readonly path: string
  /** undefined if the route does not fit the tables of the database. */
  documentation(): ToolDocumentation | undefined
  /** The schemas that the documentation may refer to, by `$id`. Default: none. */
  sharedSchemas?(): JsonSchema
  /** undefined for a route that only the router serves, with the hooks of the app: a route in code, or one that takes forms. */
  readonly serve?: ServeCall | undefined
  /** The limit that counts calls as well as requests of the route. null if only the global limit counts. */
  limit(): Limit | null
}

/** The tools of a tenant's own routes. */
export interface TenantTools {
  /** Equal only for the same routes. */
  readonly key: string
  readonly routes: readonly ToolRoute[]
}

declare module 'fastify' {
  interface FastifyInstance {
    tools: Tools
  }
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    readonly tools: FindTenantTools
  }
}

export type FindTenantTools = (tenant: Owner) => TenantTools | null | Promise<TenantTools | null>

export interface ToolCall {
  /** Ends the call. */
  readonly signal?: AbortSignal | undefined
  /** The response that the call contributes to. The call ends when that response closes. */
  readonly response?: ResponseEnd | undefined
  /** The maximum bytes of a result. Beyond it, the call fails with `answerTooLarge`. Default: 65,536. */
  readonly maxBytes?: number | undefined
  /** Milliseconds for a call. Default: 30,000. */
  readonly timeoutMs?: number | undefined
}

/** The owner of a call's rights: a request, or a run of a workflow. `id` is that of the request or the run, for the log. */
export interface ToolCaller extends Pick<RouteCall, 'auth' | 'headers' | 'id' | 'ip' | 'log' | 'server' | 'tenant'> {
  /** The number of tool calls around this one. */
  readonly toolDepth: number
  /** undefined for a caller without a request, which can call only declared routes. */
  readonly raw?: FastifyRequest['raw']
}

/** A tool that its caller may call. */
export interface FoundTool {
  readonly tool: Tool
  /** Like `answer` of `Tools`. */
  answer(input: unknown, call?: ToolCall): Promise<ToolResult>
}

/** The type of `app.tools`. */
export interface Tools extends ToolSource {
  /** The tools that the caller may call, by name. A tool of the platform hides a tenant's tool of the same name. */
  list(caller: ToolCaller): Promise<Tool[]>
  /** The tools without schemas. Callers with the same rights share the list. */
  listed(caller: ToolCaller): Promise<readonly ListedTool[]>
  /** The tool, ready to be called; null for a tool that `list` would omit. */
  open(name: string, caller: ToolCaller): Promise<FoundTool | null>
  /**
   * Calls the route with the identity, the tenant and the address of the caller, and resolves with its JSON. Rejects with `toolUnknown` for
   * tools that `list` would omit, with the route's own error, `answerTooLarge`, `toolTimeout` and `toolsNested`.
   */
  call(name: string, input: unknown, caller: ToolCaller, call?: ToolCall): Promise<unknown>
  /** Like `call`, but resolves with the text of the response. */
  answer(name: string, input: unknown, caller: ToolCaller, call?: ToolCall): Promise<ToolResult>
  resolve(names: readonly string[], caller: ToolCaller): Promise<ReadonlyMap<string, ModelTool>>
  /** The names of the platform's tools. A tenant's tool cannot have such a name. */
  readonly names: ReadonlySet<string>
}
