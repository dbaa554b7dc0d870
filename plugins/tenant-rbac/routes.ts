/** The endpoints of tenants' roles and their schemas. */
import { type Static, Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import { IfMatchHeaders, ifMatchOf, notModified, withTag } from '../../lib/http/caching.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { isFound, ListOf, pageIn, pageOf, pageQuery, searchQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { OrNull, Success } from '../../lib/http/schemas.js'
import { storablePattern } from '../../lib/json/storable.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { authorOf } from '../auth/actor.js'
import { Permission } from '../auth/permissions.js'
import { tenantOf } from '../tenancy/required.js'
import { maxPermissions, maxPermissionsInAll, maxRoles, type RbacConfig, type Role } from './roles.js'
import { rbacTag, type TenantRbac } from './service.js'

const Name = Type.String({
  pattern: '^[A-Za-z0-9_.-]{1,64}$',
  description: 'The name of the role: 1 to 64 of `A-Z a-z 0-9 _ . -`; not `admin`.',
  examples: ['editor']
})

const members = {
  description: Type.Optional(OrNull(Type.String({ maxLength: 500, pattern: storablePattern }), 'The purpose of the role.')),
  permissions: Type.Array(Permission, {
    maxItems: maxPermissions,
    uniqueItems: true,
    description: 'The permissions of the role, in addition to those inherited from its parents.'
  }),
  parentRole: Type.Optional(OrNull(Name, 'The name of a role from which this role inherits permissions. Default: none.'))
}
const NewRole = named('NewTenantRole', ClosedObject({ name: Name, ...members }))
const RoleChanges = ClosedObject({ name: Type.Optional(Name), ...members, permissions: Type.Optional(members.permissions) }, {
  minProperties: 1,
  description: 'Omitted members are not changed; null removes the description or the parent. The name cannot be changed.'
})
const NewRbac = ClosedObject({
  enabled: Type.Boolean({ description: 'Enables the roles. If false, roles grant no permissions.' }),
  defaultRole: Type.Optional(OrNull(Name, 'The role of users without a role or with an unknown role. Default: none.')),
  roles: Type.Optional(Type.Array(NewRole, { maxItems: maxRoles, default: [] }))
}, { description: 'The complete list of roles. Roles that are not listed are deleted.' })

const Shown = named(
  'TenantRole',
  Type.Object({
    name: Type.String(),
    description: Type.Optional(Type.String()),
    permissions: Type.Array(Type.String()),
    parentRole: Type.Optional(Type.String())
  })
)
const Roles = Type.Array(Shown, { description: 'The roles, sorted by name.' })
const Rbac = named(
  'TenantRbac',
  Type.Object({
    enabled: Type.Boolean({ description: 'True if the roles are enabled. False until the configuration is first saved.' }),
    defaultRole: OrNull(Type.String(), 'The role of users without a role or with an unknown role; null if it is not set.'),
    roles: Roles
  })
)
const ListQuery = ClosedObject({ ...searchQuery('the name or the description'), ...pageQuery('Roles') })
const List = ListOf(Shown)
const Params = Type.Object({ name: Type.String({ maxLength: 64 }) })

const tags = ['Roles']
const reading = { access: 'user' } as const
const writing = { access: 'tenant-admin', permission: 'rbac:write' } as const
const rule =
  `A caller who is not an administrator can grant only permissions that the caller has. There can be at most ${maxRoles} roles, with at most ${maxPermissionsInAll} permissions in total.`

export function tenantRbacRoutes (app: FastifyGroup, service: TenantRbac): void {
  app.get('/tenant/rbac', {
    config: reading,
    schema: {
      tags,
      summary: 'Retrieve the RBAC configuration of the tenant',
      response: { 200: Rbac, 304: notModified, ...callerErrors() }
    }
  }, async (request, reply) => {
    const rbac = await service.read(tenantOf(request))
    return withTag(request, reply, rbacTag(rbac), rbacBody(rbac))
  })

  app.put('/tenant/rbac', {
    config: writing,
    schema: {
      tags,
      summary: 'Replace the RBAC configuration of the tenant',
      description: rule,
      headers: IfMatchHeaders,
      body: NewRbac,
      response: { 200: Rbac, ...callerErrors(412) }
    }
  }, async (request, reply) => {
    const { enabled, defaultRole = null, roles = [] } = request.body
    const config = { enabled, defaultRole, roles: byName(roles.map(roleOf)) }
    const saved = await service.replace(tenantOf(request), config, await authorOf(request), ifMatchOf(request))
    reply.header('etag', rbacTag(saved))
    return rbacBody(saved)
  })

  app.get('/tenant/rbac/roles', {
    config: reading,
    schema: {
      tags,
      summary: 'List roles of the tenant',
      querystring: ListQuery,
      response: { 200: List, ...callerErrors() }
    }
  }, async (request) => {
    const { search } = request.query
    const roles = rolesBody(await service.read(tenantOf(request))).filter(({ name, description = '' }) =>
      isFound(search, name, description)
    )
    return pageIn(roles, pageOf(request))
  })

  app.post('/tenant/rbac/roles', {
    config: { ...writing, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Create a role',
      description: rule,
      body: NewRole,
      response: { 201: Shown, ...callerErrors(409) }
    }
  }, async (request, reply) => {
    const role = roleOf(request.body)
    await service.create(tenantOf(request), role, await authorOf(request))
    return reply.code(201).send(roleBody(role))
  })

  app.put('/tenant/rbac/roles/:name', {
    config: writing,
    schema: {
      tags,
      summary: 'Update a role',
      description: rule,
      params: Params,
      body: RoleChanges,
      response: { 200: Shown, ...callerErrors() }
    }
  }, async (request) => {
    const { name, ...changes } = request.body
    if (name !== undefined && name !== request.params.name) {
      throw failure('roleInvalid', { message: 'A role cannot be renamed: create a role with the new name, and delete this role' })
    }
    return roleBody(await service.update(tenantOf(request), request.params.name, changes, await authorOf(request)))
  })

  app.delete('/tenant/rbac/roles/:name', {
    config: writing,
    schema: {
      tags,
      summary: 'Delete a role',
      description: 'Users of the role then have the default role. The default role and roles from which others inherit cannot be deleted.',
      params: Params,
      response: { 200: Success, ...callerErrors(409) }
    }
  }, async (request) => {
    await service.delete(tenantOf(request), request.params.name, await authorOf(request))
    return { success: true }
  })
}

function roleOf ({ name, description = null, permissions, parentRole = null }: Static<typeof NewRole>): Role {
  return { name, description, permissions, parentRole }
}

/** Throws `roleInvalid` for a repeated name. */
function byName (roles: readonly Role[]): Map<string, Role> {
  const named = new Map<string, Role>()
  for (const role of roles) {
    if (named.has(role.name)) throw failure('roleInvalid', { message: `The role "${role.name}" is listed twice` })
    named.set(role.name, role)
  }
  return named
}

function rbacBody (config: RbacConfig): Static<typeof Rbac> {
  return { enabled: config.enabled, defaultRole: config.defaultRole, roles: rolesBody(config) }
}

function rolesBody ({ roles }: RbacConfig): Static<typeof Roles> {
  return [...roles.values()].map(roleBody).sort((a, b) => a.name < b.name ? -1 : 1)
}

function roleBody ({ name, description, permissions, parentRole }: Role): Static<typeof Shown> {
  return { name, ...description !== null && { description }, permissions: [...permissions], ...parentRole !== null && { parentRole } }
}
