/** The OpenAPI 3.1 document of an app: its operations, and what they share. */
import type { JsonSchema } from '../../lib/compiler/types.js'
import type { DocumentedRoute } from './documentation.js'
import type { OperationContext } from './operation.js'
import { createPace } from '../../lib/pace.js'
import { errorComponents, errorSchemas } from '../../lib/http/error-schemas.js'
import { createPathItems, type PathItems } from './path-items.js'
import { toSchemaObject } from './schema.js'
import { sharedComponents } from './shared.js'

const maxFurtherCharacters = 4_000_000

/** The document's `info`. */
export interface DocumentInfo {
  /** Default: `API`. */
  readonly title?: string | undefined
  /** The version of the API. Default: that of tenantry. */
  readonly version?: string | undefined
  readonly description?: string | undefined
}

export interface DocumentParts {
  readonly info: JsonSchema
  readonly routes: readonly DocumentedRoute[]
  /** Schemas that the app shares, by `$id`. */
  readonly schemas: JsonSchema
  readonly tenancy: boolean
}

const bearer = { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }

const partialToken = { type: 'http', scheme: 'bearer', description: 'The `partialToken` of a login, unless the body has it. A token does not do.' }

const apiKey = { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'A key of a tenant, or of the platform; not together with a token.' }

const tenantParameter = {
  in: 'header',
  name: 'X-Tenant-ID',
  required: false,
  description: 'The tenant; with a token that names one, the same. A platform administrator may name any.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' }
}

export interface ComposedDocument {
  /** As JSON. */
  readonly text: string
  /**
   * The same with further routes, in turns, since whoever brings them may bring hundreds. Their operations take 4 million
   * characters at most: those that find no room are told without their schemas.
   */
  extended (routes: Iterable<DocumentedRoute>): Promise<string>
}

export function composeDocument ({ info, routes, schemas: own, tenancy }: DocumentParts): ComposedDocument {
  const partial = routes.some(({ config }) => config?.access === 'partial')
  const schemas: JsonSchema = { ...own, ...Object.fromEntries(errorSchemas.map((schema) => [schema.$id, schema])) }
  const names = new Map(Object.keys(schemas).map((id) => [id, errorComponents.get(id) ?? id.replace(/[^\w.-]+/g, '_')]))
  const context: OperationContext = { names, tenancy }
  const components = JSON.stringify({
    schemas: Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [names.get(id), toSchemaObject(schema, names)])),
    ...sharedComponents,
    ...(tenancy && { parameters: { TenantId: tenantParameter } }),
    securitySchemes: { bearer, apiKey, ...(partial && { partialToken }) }
  })
  const base = createPathItems(context)
  for (const route of routes) base.add(route)

  function textOf (tags: readonly string[], paths: PathItems): string {
    const head = { openapi: '3.1.0', info, ...(tags.length > 0 && { tags: tags.map((name) => ({ name })) }) }
    return `${JSON.stringify(head).slice(0, -1)},"paths":{${paths.text()}},"components":${components}}`
  }

  return {
    text: textOf([...base.tags], base),
    async extended (further) {
      const paths = createPathItems({ ...context, base, maxCharacters: maxFurtherCharacters })
      const pace = createPace()
      if (pace.due()) await pace.rest()
      for (const route of further) {
        paths.add(route)
        if (pace.due()) await pace.rest()
      }
      // Some megabytes are joined in one piece, which has a turn of its own.
      await pace.rest()
      return textOf([...base.tags, ...paths.tags], paths)
    }
  }
}
