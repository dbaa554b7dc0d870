/** A connector as data: a built-in one, or one of a document's `customIntegrations`, which have fewer members. */
import type { TSchema } from 'typebox'
import type { ConnectorAuth } from '../schema/integrations.js'

/** The schema of `customIntegrations` describes these members. Any text may contain templates. */
export interface ActionDefinition {
  /** In built-in connectors also a template: the params of each call set it. */
  readonly method: string
  readonly path: string
  /** By name, or a template that gives such an object. */
  readonly headers?: Readonly<Record<string, string>> | string
  readonly query?: Readonly<Record<string, unknown>> | string
  readonly body?: unknown
  /** `json` (the default), `form` or `raw`; in built-in connectors also a template. */
  readonly bodyType?: string
  readonly result?: string
  readonly followRedirects?: boolean
  /** The request changes nothing, even if its method is not safe. */
  readonly safe?: boolean

  /** The JSON Schema of the params. Without one, the params are those that the action reads as `{{params.x}}`. */
  readonly params?: TSchema
  /** Params that are addresses: values of templates in their texts are percent-encoded, unless the whole address is a template. */
  readonly addresses?: readonly string[]
  /** Params computed from the others before templates read them: expressions over `params`; null leaves the param out. */
  readonly compute?: Readonly<Record<string, string>>
  /** The secret that signs the body according to Standard Webhooks. */
  readonly sign?: string
}

export interface ConnectorDefinition {
  readonly name: string
  readonly aliases?: readonly string[]
  readonly baseUrl: string
  /** The credentials contain the whole address. With a `baseUrl`, its path is appended to that. */
  readonly wholeAddress?: boolean
  readonly auth?: ConnectorAuth
  readonly headers?: Readonly<Record<string, string>>
  /** The secret members of `credentials.<name>`; without it, the connector has no credentials. */
  readonly secrets?: readonly string[]
  readonly actions: Readonly<Record<string, ActionDefinition>>
}
