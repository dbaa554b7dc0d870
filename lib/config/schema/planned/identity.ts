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

export const Auth = Planned(Section({
  registration: Type.Optional(Type.Enum(['open', 'closed'], { description: 'Whether users may register themselves. Default: `closed`.' }))
}, { description: 'Users with passwords.' }), 'users with passwords')

export const Mfa = Planned(Section({
  enabled: Type.Optional(Type.Boolean({ description: 'Default: true where `jwt` is configured.' })),
  issuer: Type.Optional(Type.String({ description: 'The name that authenticator apps show.' }))
}, { description: 'One-time passwords as a second factor.' }), 'second factors')

export const Rbac = Planned(Section({
  enabled: Type.Boolean({ description: "Whether the platform's roles are kept in the database." }),
  defaultRole: Type.Optional(Type.String({ description: 'The role of a user who has none assigned.' })),
  rolesTable: Type.Optional(Type.String({ description: 'Default: `roles`.' })),
  permissionsTable: Type.Optional(Type.String({ description: 'Default: `permissions`.' })),
  userRolesTable: Type.Optional(Type.String({ description: 'Default: `user_roles`.' }))
}, { description: 'Roles of the platform.' }), "roles in the database; until then a token's `role` and `permissions` claims count")
