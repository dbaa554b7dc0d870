/** The OpenAPI document of an app: the output of @fastify/swagger, and the operations of this package. */
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import type { JsonSchema } from '../../lib/expressions/types.js'
import { ifMatchParameter } from '../../lib/http/caching.js'
import { errorSchemas } from '../../lib/http/error-schemas.js'
import { idempotencyParameter } from '../../lib/http/idempotency-key.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import { securitySchemes, sharedComponents, sharedErrors, tenantParameter } from './common-components.js'
import { type Components, createComponents, sharedSchemas } from './components.js'
import type { DocumentedRoute } from './documentation.js'
import { basePathsOf, shapeOf, toTemplate, withoutBasePath } from './path.js'
import { createPathItems, type PathItems } from './path-items.js'
import { isSchema, writerOf } from './schema.js'

const maxFurtherCharacters = 4_000_000

export interface DocumentParts {
  /** The document of @fastify/swagger. */
  readonly shell: JsonSchema
  /** The routes of this package. Their operations in the shell are replaced. */
  readonly routes: readonly DocumentedRoute[]
  /** Schemas that the app shares, by `$id`. */
  readonly schemas: JsonSchema
  /** Components that this package wrote into the shell; they are replaced. */
  readonly replaced: ReadonlySet<string>
  readonly tenancy: boolean
  readonly idempotency: boolean
}

export interface ComposedDocument {
  /** As JSON. */
  readonly text: string
  /** The names of the schemas that this package adds to the components of the shell. */
  readonly schemaNames: readonly string[]
  /**
   * The same document with further routes, as JSON. The work takes turns of the tenant between routes, since there may be hundreds.
   * Their operations have at most 4 million characters: further operations are written without their schemas.
   */
  extended(routes: Iterable<DocumentedRoute>, tenant: TenantId): Promise<Buffer>
}

export function composeDocument ({ shell, routes: registered, schemas, replaced, tenancy, idempotency }: DocumentParts): ComposedDocument {
  const { openapi: version = '3.1.0', info, tags, paths, components: shellComponents, ...rest } = shell
  const { schemas: shellSchemas, ...otherComponents } = membersOf(shellComponents)
  const kept = Object.entries(membersOf(shellSchemas)).filter(([name]) => !replaced.has(name))
  const taken = new Set(kept.map(([name]) => name))
  const basePaths = basePathsOf(rest['servers'])
  const placed = (route: DocumentedRoute): DocumentedRoute => ({ ...route, url: withoutBasePath(route.url, basePaths) })
  const routes = registered.map(placed)

  const all = { ...schemas, ...Object.fromEntries(errorSchemas.map((schema) => [schema.$id, schema])) }
  const context = { shared: sharedSchemas(all, taken), write: writerOf(String(version)), taken }
  const components = createComponents(context)
  for (const { $id } of sharedErrors) components.referenceToShared($id)
  const written = operationsOf(paths, routes)
  const operationIds = new Set(written.map(({ operation }) => membersOf(operation)['operationId']))
  const base = createPathItems({ components, tenancy, idempotency, operationIds })
  for (const route of routes) base.add(route)
  for (const { template, method, operation } of written) base.addWritten(template, method, operation)

  const keptText = kept.map(([name, schema]) => `${JSON.stringify(name)}:${JSON.stringify(schema)}`)
  const others = JSON.stringify(mergedComponents(otherComponents, {
    ...sharedComponents,
    parameters: {
      ...tenancy && { TenantId: tenantParameter },
      ...idempotency && { IdempotencyKey: idempotencyParameter },
      IfMatch: ifMatchParameter
    },
    securitySchemes: securitySchemes(routes.some(({ config }) => config?.access === 'partial'))
  }))

  function textOf (paths: PathItems, components: Components): string {
    const head = JSON.stringify({ openapi: version, info, ...rest, tags: orderedTags(tags, paths.tagRanks()) })
    const schemaTexts = [...keptText, components.text()].filter((text) => text !== '').join(',')
    return `${head.slice(0, -1)},"paths":{${paths.text()}},"components":{"schemas":{${schemaTexts}},${others.slice(1)}}`
  }

  return {
    text: textOf(base, components),
    schemaNames: components.names(),
    async extended (further, tenant) {
      const added = createComponents({ ...context, base: components })
      const paths = createPathItems({ components: added, tenancy, idempotency, base, maxCharacters: maxFurtherCharacters })
      const yielder = createYielder(tenant)
      if (yielder.shouldYield()) await yielder.yield()
      for (const route of further) {
        paths.add(placed(route))
        if (yielder.shouldYield()) await yielder.yield()
      }
      // The join of megabytes cannot be interrupted, so it gets its own turn.
      await yielder.yield()
      const text = Buffer.from(textOf(paths, added))
      yielder.done(2 * text.length)
      return text
    }
  }
}

/** The operations of the shell, without those of the routes. */
function operationsOf (paths: unknown, routes: readonly DocumentedRoute[]) {
  const replaced = new Set(
    routes.flatMap(({ methods, url }) => methods.map((method) => `${method.toLowerCase()} ${shapeOf(toTemplate(url))}`))
  )
  return Object.entries(membersOf(paths)).flatMap(([template, item]) =>
    Object.entries(membersOf(item)).map(([method, operation]) => ({ template, method, operation }))
  ).filter(({ template, method }) => !replaced.has(`${method} ${shapeOf(template)}`))
}

/** The tags of @fastify/swagger, then those of routes in the order of their ranks. */
function orderedTags (given: unknown, ranks: ReadonlyMap<string, number>): JsonSchema[] {
  // Names alone are ranked like those of routes.
  const described = (Array.isArray(given) ? given : []).filter(isSchema)
    .filter((tag) => Object.keys(tag).length > 1 || !ranks.has(String(tag['name'])))
  const names = new Set(described.map((tag) => tag['name']))
  const others = [...ranks].filter(([name]) => !names.has(name)).sort(([, left], [, right]) => left - right)
  return [...described, ...others.map(([name]) => ({ name }))]
}

/** Members of the app take precedence. */
function mergedComponents (given: JsonSchema, own: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    ...given,
    ...Object.fromEntries(Object.entries(own).map(([kind, members]) => [kind, { ...members, ...membersOf(given[kind]) }]))
  }
}

function membersOf (value: unknown): JsonSchema {
  return isSchema(value) ? value : {}
}
