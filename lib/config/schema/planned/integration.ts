/** Calls to other services (SPEC "Integration members", "credentials", DESIGN 9). */
import { Type } from 'typebox'
import { MapOf, Planned, Section } from '../annotations.js'
import { Credentials } from '../credentials.js'

const reason = 'calls to other services'
const text = (description?: string) => Type.Optional(Type.String(description === undefined ? {} : { description }))

export const Integration = Section({
  type: Type.String({ description: 'The connector.' }),
  action: Type.String({ description: "One of the connector's actions." }),
  params: Type.Optional(Type.Unknown({ description: "The action's parameters, with templates." })),
  condition: Type.Optional(Type.String({ text: 'request', description: 'An expression; false skips the call.' }))
}, { description: 'A call to another service.' })

export const Integrations = Planned(Type.Array(Integration, { description: 'Calls to other services, run in order.' }), reason)

export const PlannedCredentials = Planned(Credentials, reason)

export const CustomIntegrations = Planned(Type.Array(Section({
  name: Type.String({ description: 'What `type` of an integration names.' }),
  baseUrl: Type.String(),
  auth: Type.Optional(Section({
    type: Type.Enum(['bearer', 'basic', 'header', 'query', 'oauth2']),
    token: text('Of `bearer`.'),
    username: text('Of `basic`.'),
    password: text('Of `basic`.'),
    name: text('Of `header` and `query`.'),
    value: text('Of `header` and `query`.'),
    tokenUrl: text('Of `oauth2`, like those that follow.'),
    clientId: text(),
    clientSecret: text(),
    accessToken: text(),
    refreshToken: text(),
    scope: text()
  })),
  actions: MapOf(Section({
    method: Type.String(),
    path: Type.String(),
    headers: Type.Optional(MapOf(Type.String())),
    query: Type.Optional(MapOf(Type.Unknown())),
    body: Type.Optional(Type.Unknown())
  }), { description: 'The requests, by name; `{{params.x}}` is a parameter of the integration.' })
}), { description: 'Connectors to further services.' }), reason)
