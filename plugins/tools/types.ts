/** Tools: routes that language models and MCP clients call with the rights of their caller. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyRequest } from 'fastify'
import type { ToolDocumentation } from '../../lib/compiler/tool-shape.js'
import type { JsonSchema } from '../../lib/expressions/types.js'
import type { ToolDeclaration } from '../../lib/document/rules/tools.js'
import type { ToolSource } from '../../lib/models/types.js'
import type { Access } from '../auth/access.js'

/** A tool as its callers see it. */
export interface Tool extends ToolDeclaration {
  /** Of the input: the parameters of path and query string, and `body`. */
  readonly inputSchema: JsonSchema
  /** Of the result, if the route has one. */
  readonly outputSchema?: JsonSchema
}

/** A tool in a list: what its route declares. */
export interface ListedTool extends ToolDeclaration {
  /** With its schemas, which are compiled if need be. null for a route that the tables of the database do not fit. */
  tool(): Tool | null
}

/** What a route answers to a call. */
export interface ToolAnswer {
  /** Numbers beyond the range of a double are strings in it. */
  readonly text: string
  /** The text is JSON. An empty text is not. */
  readonly isJson: boolean
}

/** What a route asks of the callers of its tool. */
export interface ToolAccess {
  readonly access: Access
  /** Default: any provider. */
  readonly authProvider?: string | undefined
  readonly permission?: string | undefined
  readonly permissions: readonly string[]
}

/** A route that is a tool. */
export interface ToolRoute extends ToolAccess {
  readonly declared: ToolDeclaration
  readonly method: string
  /** With `:name` parameters, and with the prefix of its plugin. */
  readonly path: string
  /** undefined for a route that the tables of the database do not fit. */
  documentation(): ToolDocumentation | undefined
}

/** The tools of a tenant's own routes. */
export interface TenantTools {
  /** The same for the same routes only. */
  readonly key: string
  readonly routes: readonly ToolRoute[]
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    readonly tools: FindTenantTools
  }
}

export type FindTenantTools = (tenant: Owner) => TenantTools | null | Promise<TenantTools | null>

export interface ToolCall {
  readonly signal?: AbortSignal | undefined
  /** Bytes of a result; a larger one is `answerTooLarge`. Default: 65,536. */
  readonly maxBytes?: number | undefined
  /** Default: 30,000 ms. */
  readonly timeoutMs?: number | undefined
}

/** What `app.tools` is. */
export interface Tools extends ToolSource {
  /** The tools that the caller may call, in the order of their names. A tool of the platform hides a tenant's one of the same name. */
  list(request: FastifyRequest): Promise<Tool[]>
  /** The same, without their schemas. The list is shared by callers with the same rights. */
  listed(request: FastifyRequest): Promise<readonly ListedTool[]>
  /** null for a tool that `list` would leave out. */
  find(name: string, request: FastifyRequest): Promise<Tool | null>
  /**
   * Calls the route with the credentials, the tenant and the address of the request, and resolves with its JSON. Rejects
   * with `toolUnknown` for tools that `list` would leave out, with the route's own error, `answerTooLarge`, `toolTimeout`
   * and `toolsNested`.
   */
  call(name: string, input: unknown, request: FastifyRequest, call?: ToolCall): Promise<unknown>
  /** As `call`, and resolves with the text of the response. */
  answer(name: string, input: unknown, request: FastifyRequest, call?: ToolCall): Promise<ToolAnswer>
  /** The names of the platform's tools, which no tool of a tenant may have. */
  readonly names: ReadonlySet<string>
}
