/** `app.tools`. */
import type { FastifyRequest } from 'fastify'
import type { TenantDocuments } from '../../lib/tenant-document/tenant-documents.js'
import type { ModelTool } from '../../lib/models/types.js'
import type { CompiledTool, CompiledTools } from './compiled.js'
import type { CountCall } from './figures.js'
import type { RunTool } from './run.js'
import type { TenantTools, Tool, ToolAccess, ToolRoute, Tools } from './types.js'
import { LRUCache } from 'lru-cache'
import { failure, TenantryError } from '../../lib/errors.js'
import { createPace } from '../../lib/pace.js'
import { requireCaller, requirePermissions, requireProvider } from '../auth/access.js'
import { compileTool, sizeOf } from './compiled.js'

const maxTenants = 1000 // whose tools are compiled: the most recently used
const maxCharacters = 32_000_000 // of their schemas together

export interface ToolService extends Tools {
  /** Adds a route of the platform. Throws for a name that another one has. */
  add (route: ToolRoute): void
  /** The tables of the database have changed, and the routes with them. */
  invalidate (): void
}

export interface ToolParts {
  /** Calls the route of a tool. */
  readonly run: RunTool
  readonly count: CountCall
  /** null without documents of tenants. */
  readonly documents: () => TenantDocuments | null
}

export function createTools ({ run, count, documents }: ToolParts): ToolService {
  const routes = new Map<string, ToolRoute>()
  let compiled: CompiledTools | null = null

  const ofTenants = new LRUCache<string, CompiledTools, TenantTools & { readonly tenant: string }>({
    max: maxTenants,
    maxSize: maxCharacters,
    sizeCalculation: sizeOf,
    ignoreFetchAbort: true,
    fetchMethod: async (_key, _stale, { context }) => await compileInTurns(context.routes, context.tenant)
  })

  function ofPlatform (): CompiledTools {
    compiled ??= new Map([...routes.values()].flatMap((route) => {
      const tool = compileTool(route)
      return tool === null ? [] : [[route.declared.name, tool] as const]
    }))
    return compiled
  }

  async function ofTenant ({ tenant }: FastifyRequest): Promise<CompiledTools> {
    const source = documents()
    if (source === null || tenant === null || tenant === undefined) return new Map()
    const found = await source.tools(tenant.id)
    if (found === null || found.routes.length === 0) return new Map()
    return await ofTenants.forceFetch(found.key, { context: { ...found, tenant: tenant.id } })
  }

  async function find (name: string, request: FastifyRequest): Promise<CompiledTool | null> {
    const tool = ofPlatform().get(name) ?? (routes.has(name) ? undefined : (await ofTenant(request)).get(name))
    return tool !== undefined && await admits(tool.route, request) ? tool : null
  }

  const service: ToolService = {
    get names () { return new Set(routes.keys()) },
    add (route) {
      const { name } = route.declared
      const other = routes.get(name)
      if (other !== undefined) throw new Error(`the routes ${other.method} ${other.path} and ${route.method} ${route.path} are tools of the same name, "${name}"`)
      routes.set(name, route)
      compiled = null
    },
    invalidate () {
      compiled = null
      ofTenants.clear()
    },

    async list (request) {
      const tenants = [...(await ofTenant(request)).values()].filter(({ route }) => !routes.has(route.declared.name))
      const listed: Tool[] = []
      for (const { route, tool } of [...ofPlatform().values(), ...tenants]) if (await admits(route, request)) listed.push(tool)
      return listed.sort((left, right) => left.name < right.name ? -1 : 1)
    },

    async find (name, request) {
      return (await find(name, request))?.tool ?? null
    },

    async call (name, input, request, call = {}) {
      const tool = await find(name, request)
      if (tool === null) throw failure('toolUnknown')
      try {
        const result = await run(tool, input, request, call)
        count('ok')
        return result
      } catch (error) {
        count('failed')
        throw error
      }
    },

    async resolve (names, request) {
      const tools = new Map<string, ModelTool>()
      for (const name of names) {
        const found = await find(name, request)
        if (found === null) continue
        const { description, inputSchema } = found.tool
        tools.set(name, { name, description, inputSchema, run: (input, signal) => service.call(name, input, request, { signal }) })
      }
      return tools
    }
  }
  return service
}

/** A document has hundreds of routes. */
async function compileInTurns (routes: readonly ToolRoute[], tenant: string): Promise<CompiledTools> {
  const tools = new Map<string, CompiledTool>()
  const pace = createPace(tenant)
  for (const route of routes) {
    if (pace.due()) await pace.rest()
    const tool = compileTool(route)
    if (tool !== null) tools.set(route.declared.name, tool)
  }
  pace.done()
  return tools
}

/** Whether the route would let the caller in. The route itself judges each call once more. */
async function admits ({ access, authProvider, permission, permissions }: ToolAccess, request: FastifyRequest): Promise<boolean> {
  try {
    if (authProvider !== undefined) requireProvider(request, authProvider)
    await requireCaller(request, access, permission)
    await requirePermissions(request, permissions)
    return true
  } catch (error) {
    if (error instanceof TenantryError && error.statusCode < 500) return false
    throw error
  }
}
