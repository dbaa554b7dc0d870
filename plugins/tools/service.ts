/** `app.tools`. */
import { LRUCache } from 'lru-cache'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { failure, TenantryError } from '../../lib/errors.js'
import type { ModelTool } from '../../lib/models/types.js'
import type { TenantDocuments } from '../../lib/tenant-document/tenant-documents.js'
import { requireCaller, requirePermissions, requireProvider } from '../auth/access.js'
import type { RunTool } from './run.js'
import { valueOf } from './tool-result.js'
import { type CompiledTool, type KeepTool, sortedByName, type ToolEntry, type ToolSet, toolSet } from './tool-set.js'
import type {
  FoundTool, ListedTool, TenantTools, Tool, ToolAccess, ToolCall, ToolCaller, ToolResult, ToolRoute, Tools
} from './types.js'

const maxSets = 1000 // tenants with sorted tools; the least recently used leave first
const maxCharacters = 32_000_000 // of the cached schemas of tenants' tools
const maxListed = 250_000 // tools in cached lists

export interface ToolService extends Tools {
  /** Adds a route of the platform. Throws for a taken name. */
  add(route: ToolRoute): void
  /** The tables of the database have changed, and with them the routes. */
  invalidate(): void
}

interface Kept {
  readonly tool: CompiledTool | null
}

export interface ToolParts {
  /** Calls the route of a tool. */
  readonly run: RunTool
  readonly count: (call: { outcome: 'ok' | 'failed' }) => void
  /** null without documents of tenants. */
  readonly documents: () => TenantDocuments | null
}

export function createTools ({ run, count, documents }: ToolParts): ToolService {
  const routes = new Map<string, ToolRoute>()
  const ofTenants = new LRUCache<string, ToolSet>({ max: maxSets })
  const schemas = new LRUCache<string, Kept>({
    maxSize: maxCharacters,
    sizeCalculation: ({ tool }) => tool?.size ?? 100
  })
  const lists = new LRUCache<string, readonly ListedTool[]>({ maxSize: maxListed, sizeCalculation: (list) => list.length + 1 })
  let platform: ToolSet | null = null
  let generation = 0

  /** The document limits its own schemas, which stay in memory. */
  function ofPlatform (): ToolSet {
    platform ??= toolSet(String(generation), [...routes.values()], keepIn(new Map()))
    return platform
  }

  function ofTenant ({ tenant }: ToolCaller): ToolSet | null | Promise<ToolSet | null> {
    const source = documents()
    if (source === null || tenant === null || tenant === undefined) return null
    return whenKnown(source.tools(tenant.id), setOf)
  }

  function setOf (found: TenantTools | null): ToolSet | null {
    if (found === null || found.routes.length === 0) return null
    const known = ofTenants.get(found.key)
    if (known !== undefined) return known
    const own = found.routes.filter(({ declared }) => !routes.has(declared.name))
    const set = toolSet(found.key, own, keepIn(schemas, `${found.key}\n`))
    ofTenants.set(found.key, set)
    return set
  }

  function find (name: string, caller: ToolCaller): CompiledTool | null | Promise<CompiledTool | null> {
    const ofServer = ofPlatform().entries.get(name)
    if (ofServer !== undefined) return admitted(ofServer, caller)
    return whenKnown(ofTenant(caller), (set) => admitted(set?.entries.get(name), caller))
  }

  function admitted (entry: ToolEntry | undefined, caller: ToolCaller): CompiledTool | null | Promise<CompiledTool | null> {
    if (entry === undefined || (caller.raw === undefined && entry.route.serve === undefined)) return null
    return whenKnown(admits(entry.route, caller), (isAdmitted) => isAdmitted ? entry.compiled() : null)
  }

  async function open (name: string, caller: ToolCaller): Promise<FoundTool | null> {
    const found = await find(name, caller)
    return found === null ? null : { tool: found.tool, answer: (input, call = {}) => counted(found, input, caller, call) }
  }

  async function listed (request: ToolCaller): Promise<readonly ListedTool[]> {
    const own = await ofTenant(request)
    const sets = own === null ? [ofPlatform()] : [ofPlatform(), own]
    const verdicts = await Promise.all(sets.map(({ accesses }) => Promise.all(accesses.map((access) => admits(access, request)))))
    const key = sets.map(({ key }, index) => `${key} ${verdicts[index]?.map(Number).join('') ?? ''}`).join('\n')
    const known = lists.get(key)
    if (known !== undefined) return known
    const list = sortedByName(sets.flatMap(({ sorted }, index) => sorted.filter(({ access }) => verdicts[index]?.[access]))).map(listedOf)
    lists.set(key, list)
    return list
  }

  async function counted (tool: CompiledTool, input: unknown, caller: ToolCaller, call: ToolCall): Promise<ToolResult> {
    try {
      const result = await run(tool, input, caller, call)
      count({ outcome: 'ok' })
      return result
    } catch (error) {
      count({ outcome: 'failed' })
      throw error
    }
  }

  async function answer (name: string, input: unknown, caller: ToolCaller, call?: ToolCall): Promise<ToolResult> {
    const found = await open(name, caller)
    if (found === null) throw failure('toolUnknown')
    return await found.answer(input, call)
  }

  const service: ToolService = {
    get names () {
      return new Set(routes.keys())
    },
    add (route) {
      const { name } = route.declared
      const other = routes.get(name)
      if (other !== undefined) {
        throw new Error(
          `the routes ${other.method} ${other.path} and ${route.method} ${route.path} are tools with the same name, "${name}"`
        )
      }
      routes.set(name, route)
      service.invalidate()
    },
    invalidate () {
      platform = null
      generation++
      for (const kept of [ofTenants, schemas, lists]) kept.clear()
    },
    listed,
    open,
    answer,

    async list (request) {
      return (await listed(request)).flatMap(({ tool }) => tool() ?? [])
    },

    async call (name, input, request, call) {
      return valueOf(await answer(name, input, request, call))
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

function keepIn (kept: Pick<Map<string, Kept>, 'get'> & { set(key: string, tool: Kept): unknown }, prefix = ''): KeepTool {
  return (name, compile) => {
    const known = kept.get(prefix + name)
    if (known !== undefined) return known.tool
    const tool = compile()
    kept.set(prefix + name, { tool })
    return tool
  }
}

function listedOf ({ route, compiled }: ToolEntry): ListedTool {
  return { ...route.declared, tool: (): Tool | null => compiled()?.tool ?? null }
}

/** Whether the route would admit the caller. The route checks each call again. */
function admits (
  { access, authProvider, permission, permissions, publicTenant }: ToolAccess,
  request: ToolCaller
): boolean | Promise<boolean> {
  if (publicTenant === false && request.auth === null && request.tenant !== null) return false
  try {
    if (authProvider !== undefined) requireProvider(request, authProvider)
    const checked = whenKnown(requireCaller(request, access, permission), () => requirePermissions(request, permissions))
    return checked instanceof Promise ? checked.then(() => true, refusal) : true
  } catch (error) {
    return refusal(error)
  }
}

/** false for an error that refuses the caller. Throws other errors. */
function refusal (error: unknown): false {
  if (error instanceof TenantryError && error.statusCode < 500) return false
  throw error
}
