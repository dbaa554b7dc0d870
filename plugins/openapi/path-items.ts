/** The operations of a document as JSON texts, by path and method. */
import { type Documentation, documentationOf, type DocumentedRoute } from './documentation.js'
import { type OperationContext, toOperation } from './operation.js'
import { operationName, shapeOf, toTemplate } from './path.js'

interface PathItem {
  /** The path, with the parameter names of the first route with its shape. */
  readonly template: string
  /** The item's rank: the lowest comes first. */
  readonly rank: number
  /** JSON texts by method in lower case. */
  readonly operations: ReadonlyMap<string, string>
}

export interface PathItems {
  /** Adds the operations of a route. An existing operation stays, since the server calls the first of two routes. */
  add(route: DocumentedRoute): void
  /** Adds an operation that @fastify/swagger has written. */
  addWritten(template: string, method: string, operation: unknown): void
  /** The members of `paths`, in the order of their ranks. */
  text(): string
  /** The ranks of tags, with those of the base. */
  tagRanks(): Map<string, number>
  /** By the shape of their paths; without those of the base. */
  readonly items: ReadonlyMap<string, PathItem>
  hasOperationId(id: string): boolean
}

export interface PathItemsOptions extends OperationContext {
  /** Existing operations of the document. */
  readonly base?: PathItems
  /** The `operationId`s of unchanged operations. */
  readonly operationIds?: ReadonlySet<unknown>
  /**
   * The maximum characters of operations and components together. Further operations are written without their schemas. Default: unlimited.
   */
  readonly maxCharacters?: number
}

export function createPathItems (
  { base, operationIds: taken = new Set(), maxCharacters = Infinity, ...context }: PathItemsOptions
): PathItems {
  const items = new Map<string, PathItem & { rank: number, operations: Map<string, string> }>()
  const tags = new Map<string, number>()
  const operationIds = new Set(taken)
  const counts = new Map<string, number>()
  const { components } = context
  let characters = 0

  const hasOperationId = (id: string): boolean => operationIds.has(id) || base?.hasOperationId(id) === true

  function uniqueId (name: string): string {
    let count = counts.get(name) ?? 1
    let id = count === 1 ? name : `${name}${count}`
    while (hasOperationId(id)) id = `${name}${++count}`
    counts.set(name, count)
    operationIds.add(id)
    return id
  }

  /** The text of an operation, without its schemas if the document has no room for them. */
  function operationText (route: DocumentedRoute, documentation: Documentation, method: string, template: string): string {
    const operationId = uniqueId(documentation.operationId ?? operationName(method, template))
    const write = (parts: Documentation) => JSON.stringify({ operationId, ...toOperation(route, parts, template, context) })
    const { count } = components
    const text = write(documentation)
    if (characters + components.characters + text.length <= maxCharacters) return text
    components.truncate(count)
    return write(withoutSchemas(documentation))
  }

  function itemAt (template: string, rank: number): PathItem & { operations: Map<string, string> } {
    const shape = shapeOf(template)
    const item = items.get(shape) ?? { template: base?.items.get(shape)?.template ?? template, rank, operations: new Map<string, string>() }
    item.rank = Math.min(item.rank, rank)
    items.set(shape, item)
    return item
  }

  return {
    items,
    hasOperationId,
    add (route) {
      const template = toTemplate(route.url)
      const shape = shapeOf(template)
      const known = (method: string) => [items, base?.items].some((all) => all?.get(shape)?.operations.has(method) === true)
      const missing = route.methods.map((method) => method.toLowerCase()).filter((method) => !known(method))
      if (missing.length === 0) return
      const documentation = documentationOf(route)
      if (documentation === null) return
      const rank = rankOf(documentation)
      const tagged = { ...documentation, tags: tagsOf(documentation, template) }
      const item = itemAt(template, rank)
      for (const method of missing) {
        const text = operationText(route, tagged, method, item.template)
        characters += text.length
        item.operations.set(method, text)
      }
      for (const tag of tagged.tags) tags.set(tag, Math.min(tags.get(tag) ?? Infinity, tagRank(tag, rank)))
    },
    addWritten (template, method, operation) {
      itemAt(template, own).operations.set(method, JSON.stringify(operation))
    },
    tagRanks () {
      const ranks = base?.tagRanks() ?? new Map<string, number>()
      for (const [tag, rank] of tags) ranks.set(tag, Math.min(ranks.get(tag) ?? Infinity, rank))
      return ranks
    },
    text () {
      const written: Array<readonly [rank: number, text: string]> = []
      for (const [shape, item] of base?.items ?? []) {
        const own = items.get(shape)
        written.push([Math.min(item.rank, own?.rank ?? Infinity), itemText(item, own)])
      }
      for (const [shape, item] of items) if (base?.items.has(shape) !== true) written.push([item.rank, itemText(item)])
      return written.sort(([left], [right]) => left - right).map(([, text]) => text).join(',')
    }
  }
}

function itemText ({ template, operations }: PathItem, further?: PathItem): string {
  const members = [...operations, ...further?.operations ?? []].map(([method, text]) => `"${method}":${text}`)
  return `${JSON.stringify(template)}:{${members.join(',')}}`
}

/** The parts of an operation that always fit: the parameters of its path, whether it takes a body, its statuses and its callers. */
function withoutSchemas (documentation: Documentation): Documentation {
  const { summary, description, hide, params, querystring, headers, body, bodyOptional, response, ...kept } = documentation
  return {
    ...kept,
    ...(body !== undefined && body !== null && { body: {} }),
    description: 'The schemas of this endpoint are omitted because the document would be too large.',
    response: Object.fromEntries(Object.keys(Object(response)).map((status) => [status, {}]))
  }
}

/** The tags of the built-in endpoints, in the order of the document. */
export const builtInGroups = [
  'Login', 'Sessions', 'Passwords', 'Users', 'Multi-factor authentication', 'Tenants', 'Tenant configuration',
  'Roles', 'API keys', 'Secrets', 'Resource limits', 'Usage', 'Billing', 'Tenant billing', 'Files', 'Realtime',
  'Models', 'Documents and search', 'Agent', 'MCP', 'Webhooks', 'Integrations', 'Workflows', 'Admin',
  'Platform roles', 'Audit', 'Queue', 'Cache', 'Migration', 'Publishing', 'System'
]

const positions = new Map(builtInGroups.map((name, index) => [name, index]))

/** Routes of a configuration document. */
const declared = 0
/** Other routes of the app. */
const own = 1
const builtIn = 2

/** The groups of the operation in `/doc` and `/ui`. Default: the first named segment of the path, for `/articles/{id}` `articles`. */
function tagsOf ({ tags = [] }: Documentation, template: string): readonly string[] {
  return tags.length > 0 ? tags : [template.split('/').find((segment) => /^[^{:*]+$/.test(segment)) ?? 'default']
}

/** The rank of a route: the lowest comes first. Declared routes come before the app's other routes, and these before the built-in ones. */
function rankOf (documentation: Documentation): number {
  if (documentation.declared === true) return declared
  return documentation.tags?.some((tag) => positions.has(tag)) === true ? builtIn : own
}

function tagRank (tag: string, rank: number): number {
  return rank === builtIn ? builtIn + (positions.get(tag) ?? 0) : rank
}
