/** The OpenAPI 3.1 document of an app: its operations, and what they share. */
import type { JsonSchema } from '../../lib/compiler/types.js'
import { documentationOf, type DocumentedRoute } from './documentation.js'
import { toOperation, type OperationContext } from './operation.js'
import { operationName, toTemplate } from './path.js'
import { toSchemaObject } from './schema.js'

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
  /** Component names of shared schemas that differ from their ids. */
  readonly componentNames: Readonly<Record<string, string>>
  readonly tenancy: boolean
}

const bearer = { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }

const tenantParameter = {
  in: 'header',
  name: 'X-Tenant-ID',
  required: false,
  description: 'The tenant; with a token that names one, the same. A platform administrator may name any.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' }
}

export function composeDocument ({ info, routes, schemas, componentNames, tenancy }: DocumentParts): JsonSchema {
  const names = new Map(Object.keys(schemas).map((id) => [id, componentNames[id] ?? id.replace(/[^\w.-]+/g, '_')]))
  const paths: Record<string, Record<string, unknown>> = {}
  const tags = new Set<string>()
  const operationIds = new Set<string>()
  const context: OperationContext = { names, tenancy }

  for (const route of routes) {
    const documentation = documentationOf(route)
    if (documentation === null) continue
    const template = toTemplate(route.url)
    const operation = toOperation(route, documentation, template, context)
    for (const method of route.methods) {
      const operationId = unique(documentation.operationId ?? operationName(method, template), operationIds)
      paths[template] ??= {}
      paths[template][method.toLowerCase()] = { operationId, ...operation }
    }
    for (const tag of documentation.tags ?? []) tags.add(tag)
  }

  return {
    openapi: '3.1.0',
    info,
    ...(tags.size > 0 && { tags: [...tags].map((name) => ({ name })) }),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [names.get(id), toSchemaObject(schema, names)])),
      ...(tenancy && { parameters: { TenantId: tenantParameter } }),
      securitySchemes: { bearer }
    }
  }
}

function unique (name: string, taken: Set<string>): string {
  let candidate = name
  for (let count = 2; taken.has(candidate); count++) candidate = `${name}${count}`
  taken.add(candidate)
  return candidate
}
