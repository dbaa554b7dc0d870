/** A connector as data: the built-in ones, and those of a document's `customIntegrations`, which have fewer members. */
import type { TSchema } from 'typebox'
import type { ConnectorAuth } from '../schema/custom-integrations.js'

/** Members for which the schema of `customIntegrations` says what they mean. Any text may hold templates. */
export interface ActionDefinition {
  /** Of a built-in one also a template: each call's params say it. */
  readonly method: string
  readonly path: string
  /** By name, or a template that gives such an object. */
  readonly headers?: Readonly<Record<string, string>> | string
  readonly query?: Readonly<Record<string, unknown>> | string
  readonly body?: unknown
  /** `json` (the default), `form` or `raw`; of a built-in one also a template. */
  readonly bodyType?: string
  readonly result?: string
  readonly followRedirects?: boolean
  /** The request changes nothing, whatever its method. */
  readonly safe?: boolean

  /** The JSON Schema of the params. Without one, `{{params.x}}` in the action says which there are. */
  readonly params?: TSchema
  /** Params that are addresses: what templates in their texts give is percent-encoded, but where the whole address is a template. */
  readonly addresses?: readonly string[]
  /** Params that are computed of the others before templates read them: expressions over `params`; null leaves the param out. */
  readonly compute?: Readonly<Record<string, string>>
  /** The secret by which the body is signed as Standard Webhooks has it. */
  readonly sign?: string
}

export interface ConnectorDefinition {
  readonly name: string
  readonly aliases?: readonly string[]
  readonly baseUrl: string
  /** The credentials hold the whole address; where they have a `baseUrl` too, its path is appended to that. */
  readonly wholeAddress?: boolean
  readonly auth?: ConnectorAuth
  /** Those of every action. */
  readonly headers?: Readonly<Record<string, string>>
  /** The members of `credentials.<name>` that are secret; without it, the connector has no credentials. */
  readonly secrets?: readonly string[]
  readonly actions: Readonly<Record<string, ActionDefinition>>
}
