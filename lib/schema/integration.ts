/** Calls to other services, as routes and webhooks declare them. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

/** Tenants' documents have smaller bounds: lib/tenant-document/schema.ts. */
const maxIntegrations = 50

export const Integration = Section({
  type: Type.String({
    text: 'literal',
    minLength: 1,
    maxLength: 64,
    description: 'The connector: the name or alias of a built-in connector, or the name of one of `customIntegrations`.'
  }),
  action: Type.String({ text: 'literal', minLength: 1, maxLength: 64, description: "The name of one of the connector's actions." }),
  alias: Type.Optional(
    Type.String({
      text: 'literal',
      pattern: '^(?!__proto__$)[A-Za-z_][A-Za-z0-9_-]{0,63}$',
      expected: 'a letter or `_`, then up to 63 of A-Z a-z 0-9 _ -, but not `__proto__`',
      description: 'The name of the result, for `{{results.<alias>}}`. Default: the `type`, or `<type>_2` and so on if that name is taken.'
    })
  ),
  params: Type.Optional(
    Type.Unknown({
      text: 'request',
      description: "The action's parameters, with templates: an object, or a template that returns one. Default: none."
    })
  ),
  condition: Type.Optional(
    Type.String({
      text: 'request',
      minLength: 1,
      maxLength: 4096,
      description: 'An expression. If it is false, the call is skipped and its result is null.'
    })
  )
}, { description: 'A call to another service.' })
export type Integration = Static<typeof Integration>

export const Integrations = Type.Array(Integration, {
  minItems: 1,
  maxItems: maxIntegrations,
  description: 'Calls to other services, run in order after the queries.'
})
