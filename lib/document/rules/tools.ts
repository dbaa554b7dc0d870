/** Routes that are tools of language models. */
import { hash } from 'node:crypto'
import { type FaultList, nearest } from '../../schema/faults.js'
import type { Route } from '../../schema/route.js'
import { parsePath } from '../reserved.js'
import type { Entry } from '../sections.js'

export interface ToolDeclaration {
  readonly name: string
  readonly description: string
  /** A hint: the tool changes nothing. */
  readonly readOnly: boolean
  /** A hint: the tool may change or remove data. */
  readonly destructive: boolean
  /** The address of the resource, with `{name}` for parameters of the path. Default: no resource. */
  readonly uri?: string
}

/** The member of a tool's input with the body of the request. */
export const bodyMember = 'body'

const maxTools = 250 // of a document
const maxName = 64 // characters
const hashLength = 8 // characters at the end of a long name that keep it unique

/** undefined for a route without a tool. */
export function toolOf (route: Route): ToolDeclaration | undefined {
  const { mcp, method, path } = route
  if (mcp === undefined) return undefined
  const { name, description = route.description ?? '', resource = false, readOnly = method.toUpperCase() === 'GET' } = mcp === true
    ? {}
    : mcp
  return {
    name: name ?? defaultName(method, path),
    description: description === '' ? `${method.toUpperCase()} ${path}` : description,
    readOnly,
    destructive: !readOnly && !onlyAdds(route),
    ...resource && { uri: `tenantry://${path.replaceAll(/:([^/]+)/g, '{$1}')}` }
  }
}

/** Adds a fault for each tool that cannot be called, or that has a name in use. */
export function checkTools (routes: readonly Entry<Route>[], faults: FaultList): void {
  const names = new Map<string, string>()
  let count = 0
  for (const { pointer, value: route } of routes) {
    const tool = toolOf(route)
    if (tool === undefined) continue
    if (++count > maxTools) return faults.add(`${pointer}/mcp`, `a document can have at most ${maxTools} tools`)
    if (tool.uri !== undefined && route.method.toUpperCase() !== 'GET') {
      faults.add(`${pointer}/mcp/resource`, 'only a `get` route can be a resource')
    }
    checkMembers(route, pointer, faults)
    const first = names.get(tool.name)
    if (first === undefined) names.set(tool.name, pointer)
    else faults.add(`${pointer}/mcp`, `the tool "${tool.name}" is already declared at ${first}: give one of them another \`name\``)
  }
}

/**
 * Adds a fault for each unknown tool of a chat: neither a route nor `server.tool` of an MCP server.
 *
 * @param servers the names of the MCP servers
 */
export function checkChatTools (
  names: readonly string[],
  routes: readonly Entry<Route>[],
  servers: readonly string[],
  faults: FaultList
): void {
  const known = routes.flatMap(({ value }) => toolOf(value)?.name ?? [])
  for (const [index, name] of names.entries()) {
    if (known.includes(name) || servers.some((server) => name.startsWith(`${server}.`))) continue
    faults.add(
      `/agent/chat/tools/${index}`,
      'is not a tool: expected the name of a route with `mcp`, or `server.tool` of `agent.mcpServers`',
      nearest(name, known)
    )
  }
}

/** The input of a tool has the parameters of the path, those of the query string, and `body`. */
function checkMembers ({ path, request, webhook }: Route, pointer: string, faults: FaultList): void {
  if (webhook !== undefined) faults.add(`${pointer}/mcp`, 'a webhook with signed requests cannot be a tool')
  const segments = parsePath(path)
  const params = typeof segments === 'string' ? [] : segments.flatMap(({ kind, text }) => kind === 'parameter' ? [text] : [])
  const query = Object.keys(request?.query ?? {})
  for (const name of params) {
    if (query.includes(name)) {
      faults.add(`${pointer}/mcp`, `the path and the query string of a tool must have different names, but both have "${name}"`)
    }
  }
  if ([...params, ...query].includes(bodyMember)) faults.add(`${pointer}/mcp`, `a parameter of a tool cannot have the name "${bodyMember}"`)
}

/** `get_notes_by_id` for `GET /notes/:id`. */
function defaultName (method: string, path: string): string {
  const segments = path.split('/').filter((segment) => segment !== '')
  const words = segments.map((segment) => (segment.startsWith(':') ? `by_${segment.slice(1)}` : segment).replace(/[^A-Za-z0-9_-]+/g, '_'))
  const name = [method.toLowerCase(), ...words].join('_')
  if (name.length <= maxName) return name
  return `${name.slice(0, maxName - hashLength - 1)}_${hash('sha256', name).slice(0, hashLength)}`
}

const adding: ReadonlySet<string> = new Set(['insert', 'create', 'add', 'select', 'query', 'get'])

function onlyAdds ({ method, queries = [], firebaseQueries = [], integrations, workflow }: Route): boolean {
  if (method.toUpperCase() !== 'POST' || integrations !== undefined || workflow !== undefined) return false
  return [...queries, ...firebaseQueries].every(({ operation }) => adding.has(operation))
}
