/**
 * Compiled connectors: requests as data and functions over a request's scope. Nothing here
 * reaches the network; `app.integrations` (plugins/integrations) sends what `prepare` returns.
 */
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
  /**
   * The address, but for encoded values in its path and query, is one that is fixed in the platform's document: the egress rule
   * does not apply to it.
   */
  readonly trusted: boolean
}

/** The part of a service's answer that a result is made of. */
export interface OutboundAnswerLike {
  readonly status: number
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** What is needed to have and to renew tokens of OAuth 2.0. The values read secrets and settings only. */
export interface CompiledOAuth2 {
  readonly tokenUrl: CompiledValue
  readonly clientId: CompiledValue
  readonly clientSecret: CompiledValue
  readonly accessToken: CompiledValue | null
  readonly refreshToken: CompiledValue | null
  readonly scope: CompiledValue | null
  /**
   * Keys of the secrets under which renewed tokens are stored: the one that `accessToken` or `refreshToken` is, where it is one
   * `{{secret:KEY}}`,
   * else `<connector>_access_token`, `<connector>_refresh_token`.
   */
  readonly accessTokenKey: string
  readonly refreshTokenKey: string
  /** `tokenUrl` is fixed in the platform's document. */
  readonly trusted: boolean
}

/** One call of an action, as a route, a step or a webhook declares it, or `POST /integrations/{type}/{action}` makes it. */
export interface CompiledCall {
  /** The connector's own name, whichever alias was written. */
  readonly connector: string
  readonly action: string
  /** Whose document the connector, with its credentials, stands in. */
  readonly origin: 'platform' | 'tenant'
  /** Of the action; `*` where each call's params say it. */
  readonly method: string
  /** The request may be sent again although it may have been done: its method is idempotent. With an idempotency key every call may. */
  readonly idempotent: boolean
  readonly followRedirects: boolean
  readonly oauth2: CompiledOAuth2 | null
  /** All that it reads of a scope, secrets of credentials and auth included. */
  readonly references: readonly Reference[]
  /**
   * Evaluates params, credentials, address, headers, body and every auth but oauth2. Throws `validationFailed` where the params
   * do not fit the
   * action, `credentialsRequired` where a credential comes to nothing, `addressRefused` where the address is none, `answerTooLarge`.
   */
  readonly prepare: (scope: Scope) => PreparedRequest
  /**
   * The answer parsed by its content type, and of it what the action picks; text where it is no JSON, null where there is none.
   * Throws `providerFailed` for broken JSON.
   */
  readonly result: (answer: OutboundAnswerLike) => unknown
  /** Every secret that the connector sends is one of the tenant in the scope, and the action sends no setting: none is the platform's. */
  readonly ownedBy: (scope: Scope) => boolean
}

/** A call as it is declared. */
export interface DeclaredCall {
  readonly type: string
  readonly action: string
  readonly params?: unknown
}

/** All connectors that one document can call: the built-in ones and its own. */
export interface ConnectorSet {
  /** Every name, aliases included. */
  readonly names: readonly string[]
  /** Of the name or alias there is a connector. */
  has(type: string): boolean
  /** The names of a connector's actions; empty where there is no such connector. */
  actions(type: string): readonly string[]
  /**
   * Compiles one call; null after faults: an unknown connector or action, params that do not fit the action, credentials that are missing.
   *
   * @param context what templates of `params` may read where the call stands
   * @param typeMember the member that names the connector, for faults. Default: `type`
   */
  call(declared: DeclaredCall, pointer: string, context: TemplateContext, typeMember?: string): CompiledCall | null
}
