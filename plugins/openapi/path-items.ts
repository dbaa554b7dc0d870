/** The operations of a document as JSON texts, by path and method. */
import { documentationOf, type Documentation, type DocumentedRoute } from './documentation.js'
import { toOperation, type OperationContext } from './operation.js'
import { operationName, shapeOf, toTemplate } from './path.js'

interface PathItem {
  /** The path, with the parameters' names of the first route that has its shape. */
  readonly template: string
  /** JSON texts by method in lower case. */
  readonly operations: ReadonlyMap<string, string>
}

export interface PathItems {
  /** Adds the operations of a route. One that is there already stays as it is: the server asks the first of two routes. */
  add (route: DocumentedRoute): void
  /** The members of `paths`, those of the base first. */
  text (): string
  readonly tags: ReadonlySet<string>
  /** By the shape of their paths; without those of the base. */
  readonly items: ReadonlyMap<string, PathItem>
  hasOperationId (id: string): boolean
}

export interface PathItemsOptions extends OperationContext {
  /** What stands in the document already. */
  readonly base?: PathItems
  /** Characters that the operations may take together; those that find no room are told without their schemas. Default: any number. */
  readonly maxCharacters?: number
}

export function createPathItems ({ base, maxCharacters = Infinity, ...context }: PathItemsOptions): PathItems {
  const items = new Map<string, PathItem & { operations: Map<string, string> }>()
  const tags = new Set<string>()
  const operationIds = new Set<string>()
  const counts = new Map<string, number>()
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

  /** Its text, without its schemas where it finds no room. */
  function operationText (route: DocumentedRoute, documentation: Documentation, method: string, template: string): string {
    const operationId = uniqueId(documentation.operationId ?? operationName(method, template))
    const write = (told: Documentation) => JSON.stringify({ operationId, ...toOperation(route, told, template, context) })
    const text = write(documentation)
    return characters + text.length <= maxCharacters ? text : write(withoutSchemas(documentation))
  }

  return {
    items,
    tags,
    hasOperationId,
    add (route) {
      const own = toTemplate(route.url)
      const shape = shapeOf(own)
      const below = base?.items.get(shape)
      const item = items.get(shape) ?? { template: below?.template ?? own, operations: new Map<string, string>() }
      const missing = route.methods.map((method) => method.toLowerCase()).filter((method) => !item.operations.has(method) && below?.operations.has(method) !== true)
      if (missing.length === 0) return
      const documentation = documentationOf(route)
      if (documentation === null) return
      items.set(shape, item)
      for (const method of missing) {
        const text = operationText(route, documentation, method, item.template)
        characters += text.length
        item.operations.set(method, text)
      }
      for (const tag of documentation.tags ?? []) if (base?.tags.has(tag) !== true) tags.add(tag)
    },
    text () {
      const texts: string[] = []
      for (const [shape, item] of base?.items ?? []) texts.push(itemText(item, items.get(shape)))
      for (const [shape, item] of items) if (base?.items.has(shape) !== true) texts.push(itemText(item))
      return texts.join(',')
    }
  }
}

function itemText ({ template, operations }: PathItem, further?: PathItem): string {
  const members = [...operations, ...further?.operations ?? []].map(([method, text]) => `"${method}":${text}`)
  return `${JSON.stringify(template)}:{${members.join(',')}}`
}

/** What is told of an operation that there is no room for: the parameters of its path, whether it takes a body, its statuses and who may call it. */
function withoutSchemas ({ operationId, tags, deprecated, body, response, errors, cached, security, consumes, produces }: Documentation): Documentation {
  const statuses = typeof response === 'object' && response !== null ? Object.keys(response) : []
  return {
    ...(operationId !== undefined && { operationId }),
    ...(tags !== undefined && { tags }),
    ...(deprecated !== undefined && { deprecated }),
    ...(body !== undefined && body !== null && { body: {} }),
    ...(errors !== undefined && { errors }),
    ...(cached !== undefined && { cached }),
    ...(security !== undefined && { security }),
    ...(consumes !== undefined && { consumes }),
    ...(produces !== undefined && { produces }),
    description: 'Its schemas are left out: the document would be too large.',
    response: Object.fromEntries(statuses.map((status) => [status, {}]))
  }
}
