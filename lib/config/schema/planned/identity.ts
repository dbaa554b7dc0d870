/** Identity beyond tokens of the own key: logins, external providers, second factors, roles in the database (DESIGN 5). */
import { Type } from 'typebox'
import { MapOf, Planned, Section } from '../annotations.js'

export const AuthProviders = Planned(MapOf(Section({
  issuer: Type.String({ description: 'The `iss` of its tokens.' }),
  jwksUri: Type.String({ description: 'Where its keys are.' }),
  audience: Type.Union([Type.String(), Type.Array(Type.String())], { description: 'The `aud` of its tokens.' }),
  tenantClaim: Type.Optional(Type.String({ description: 'The claim that names the tenant. Default: none, a user of no tenant.' })),
  roleClaim: Type.Optional(Type.String({ description: 'The claim that names the role.' })),
  algorithms: Type.Optional(Type.Array(Type.String(), { description: 'The algorithms that are accepted.' }))
}), { description: "External identity providers, by the name that a route's `authProvider` gives." }), 'external identity providers')
