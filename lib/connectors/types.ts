/** Compiled connectors: requests as data and functions over a scope, without the network. `app.integrations` sends them. */
import type { TemplateContext } from '../expressions/reference.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'

/** A request as data, ready to be sent. */
export interface PreparedRequest {
  readonly method: string
  /** Absolute, `http:` or `https:`, without user and fragment. */
  readonly url: string
  /** By name in lower case. */
  readonly headers: Record<string, string>
  readonly body: string | null
  /** The platform's document fixes the address, except for encoded values in its path and query: the egress rule does not apply to it. */
  readonly trusted: boolean
}

/** The parts of a service's response that make a result. */
export interface OutboundResponseLike {
  readonly status: number
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** The values for getting and renewing tokens of OAuth 2.0. They read secrets and settings only. */
export interface CompiledOAuth2 {
  readonly tokenUrl: CompiledValue
  readonly clientId: CompiledValue
  readonly clientSecret: CompiledValue
  readonly accessToken: CompiledValue | null
  readonly refreshToken: CompiledValue | null
  readonly scope: CompiledValue | null
  /** Keys of the secrets with renewed tokens: that of `{{secret:KEY}}`, or `<connector>_access_token` and `<connector>_refresh_token`. */
  readonly accessTokenKey: string
  readonly refreshTokenKey: string
  /** `tokenUrl` is fixed in the platform's document. */
  readonly trusted: boolean
}

/** One call of an action, declared by a route, a step or a webhook, or made by `POST /integrations/{type}/{action}`. */
export interface CompiledCall {
  /** The connector's own name, never an alias. */
  readonly connector: string
  readonly action: string
  /** The document's part about the connector: its custom integration, or the credentials of a built-in one. */
  readonly declared: unknown
  /** The owner of the document with the connector and its credentials. */
  readonly origin: 'platform' | 'tenant'
  /** The method of the action; `*` if the params of each call set it. */
  readonly method: string
  /** The request may be repeated although it may have been done: its method is idempotent. With an idempotency key, every call may. */
  readonly idempotent: boolean
  readonly followRedirects: boolean
  readonly oauth2: CompiledOAuth2 | null
  /** Everything that it reads of a scope, including secrets of credentials and auth. */
  readonly references: readonly Reference[]
  /**
   * Evaluates params, credentials, address, headers, body and every auth except oauth2. Throws `validationFailed` for wrong params,
   * `credentialsRequired` for a missing credential, `addressRefused` for a wrong address, and `answerTooLarge`.
   */
  readonly prepare: (scope: Scope) => PreparedRequest
  /** The response by its content type, and the part that the action selects; null without a body. Throws `providerFailed` for bad JSON. */
  readonly result: (response: OutboundResponseLike) => unknown
  /** Every secret that the connector sends belongs to the tenant in the scope, and the action sends no setting of the platform. */
  readonly ownedBy: (scope: Scope) => boolean
}

export interface DeclaredCall {
  readonly type: string
  readonly action: string
  readonly params?: unknown
}

/** All connectors that one document can call: the built-in ones and its own. */
export interface ConnectorSet {
  /** Every name, including aliases. */
  readonly names: readonly string[]
  /** A connector has this name or alias. */
  has(type: string): boolean
  /** The names of a connector's actions; empty for an unknown connector. */
  actions(type: string): readonly string[]
  /**
   * Compiles one call; null after faults: an unknown connector or action, wrong params, missing credentials.
   *
   * @param context the sources of templates in `params`
   * @param typeMember the member that names the connector, for faults. Default: `type`
   */
  call(declared: DeclaredCall, pointer: string, context: TemplateContext, typeMember?: string): CompiledCall | null
}
