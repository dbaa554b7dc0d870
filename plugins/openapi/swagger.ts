/** @fastify/swagger collects the routes and offers the document as `app.swagger()`: in the app's own registration, or ours. */
import type { SwaggerTransform } from '@fastify/swagger'
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { JsonSchema } from '../../lib/expressions/types.js'
import { isSchema } from './schema.js'
import type { OpenApiService } from './service.js'

/** The decorator of our registration's collection: `app.swagger` returns the finished document. */
const collector = 'tenantrySwagger'

export interface Swagger {
  /** The document of @fastify/swagger. Routes of this package may be missing from it or outdated. */
  shell(): JsonSchema
  /** Whether this package documents the route; @fastify/swagger documents the others. */
  isOurs(route: RouteOptions): boolean
  /** Prepares a route of this package for @fastify/swagger. */
  prepare(route: RouteOptions): void
}

/** Uses the app's own registration of @fastify/swagger. */
export function appSwagger (app: FastifyInstance, service: OpenApiService): Swagger {
  const filled = new WeakSet<object>()

  const write: SwaggerTransform = ({ schema, url, ...target }) => {
    if (!('openapiObject' in target)) throw new Error(onlyOpenApi3)
    const { openapiObject } = target
    if (!filled.has(openapiObject)) {
      filled.add(openapiObject)
      Object.assign(openapiObject, JSON.parse(service.fill({ ...openapiObject }).text))
    }
    return { schema: { ...schema, hide: true }, url }
  }

  return {
    shell () {
      const document: unknown = app.swagger()
      if (!isSchema(document) || document['openapi'] === undefined) throw new Error(onlyOpenApi3)
      return document
    },
    isOurs: ({ config }) => config?.swaggerTransform === undefined && (config?.access !== undefined || config?.openapi !== undefined),
    prepare (route) {
      route.config = { ...route.config, swaggerTransform: write }
    }
  }
}

const onlyOpenApi3 =
  'The plugin "tenantry/plugins/openapi" generates OpenAPI 3, but the app registers @fastify/swagger for Swagger 2: register it with the option `openapi`.'

/** Registers @fastify/swagger, and decorates `app.swagger`, which follows changes of the documentation. */
export async function ownSwagger (
  app: FastifyInstance,
  info: { readonly title: string, readonly version: string, readonly description?: string },
  service: OpenApiService
): Promise<Swagger> {
  const [{ default: swagger }, { stringify }] = await Promise.all([import('@fastify/swagger'), import('yaml')])
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', info },
    decorator: collector,
    convertConstToEnum: false,
    transform: ({ schema, url }) => ({ schema: { ...schema, hide: true }, url })
  })
  const collected = app.getDecorator<FastifyInstance['swagger']>(collector)
  let yaml: { readonly json: string, readonly text: string } | null = null

  app.decorate('swagger', (options?: { yaml?: boolean }) => {
    const json = service.text()
    if (options?.yaml !== true) return JSON.parse(json)
    if (yaml?.json !== json) yaml = { json, text: stringify(JSON.parse(json)) }
    return yaml.text
  })

  return {
    shell () {
      const document: JsonSchema = { ...collected() }
      const { components, ...rest } = document
      // Without operations of @fastify/swagger, nothing refers to its copies of the shared schemas.
      return isSchema(rest['paths']) && Object.keys(rest['paths']).length > 0 ? document : rest
    },
    isOurs: ({ config }) => config?.swaggerTransform === undefined,
    prepare () {}
  }
}
