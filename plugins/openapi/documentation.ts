/** The documentation of a route, for the OpenAPI document. */
import type { FastifySchema, RouteOptions } from 'fastify'
import type { JsonSchema } from '../../lib/expressions/types.js'
import type { ListedError } from '../../lib/http/error-schemas.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The documentation that replaces the route's `schema`, for routes that do not validate by it. A function is called each time the
     * document is composed. false omits the route.
     */
    openapi?: Documentation | (() => Documentation) | false
    /** The statuses of the route's rate limits; set by the plugin rate-limit. Default: none. */
    limitStatuses?: readonly number[]
    /** Whether the route's 201 has the header Location. Default: false. */
    location?: boolean
  }
}

/** The used members of a route schema; parts of the request are JSON Schemas. */
export interface Documentation {
  readonly summary?: string
  readonly description?: string
  /** The groups that list the route. Default: the first segment of its path. */
  readonly tags?: readonly string[]
  /** Whether a configuration document declares the route. Its group comes before the built-in groups. */
  readonly declared?: boolean
  /** Default: derived from method and path. Made unique if necessary. */
  readonly operationId?: string
  readonly deprecated?: boolean
  readonly hide?: boolean
  readonly params?: unknown
  readonly querystring?: unknown
  readonly headers?: unknown
  readonly body?: unknown
  /** Whether a request without a body counts as one with an empty object. Default: the body is required. */
  readonly bodyOptional?: boolean
  /** Schemas by status (`200`, `2xx`, `default`); their `description` describes the response. */
  readonly response?: unknown
  /** Errors, beyond those that `access` implies: a status, or a name of the catalogue if the body has more members. */
  readonly errors?: readonly ListedError[]
  /** Whether successful responses are cached, with the header `X-Cache`. */
  readonly cached?: boolean
  /** Whether a declared route accepts the header Idempotency-Key. */
  readonly takesIdempotencyKey?: boolean
  /** Whether a declared route honours the header If-Match. */
  readonly supportsIfMatch?: boolean
  /** Whether the 201 of a declared route has the header Location. */
  readonly location?: boolean
  /** Default: from the route's `access`. */
  readonly security?: readonly JsonSchema[]
  /** Media types of the body. Default: application/json. */
  readonly consumes?: readonly string[]
  /** Media types of the responses. Default: application/json. */
  readonly produces?: readonly string[]
}

/** A registered route. */
export interface DocumentedRoute {
  readonly methods: readonly string[]
  readonly url: string
  readonly config: RouteOptions['config']
  readonly schema: FastifySchema | undefined
}

/** null if the route is omitted from the document. */
export function documentationOf ({ config, schema }: DocumentedRoute): Documentation | null {
  const own = config?.openapi
  if (own === false) return null
  const documentation: Documentation = (typeof own === 'function' ? own() : own) ?? schema ?? {}
  return documentation.hide === true ? null : documentation
}
