/** The endpoints of the platform's roles and their schemas. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { ListOf, pageIn, pageOf, pageQuery, readPage } from '../../lib/http/page.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { IdParams, OrNull, Success, Time } from '../../lib/http/schemas.js'
import { tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { maxUserIdLength } from '../../lib/identity/user-id.js'
import { storablePattern } from '../../lib/json/storable.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { maxRoleName, roleNamePattern } from '../../lib/schema/auth.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf } from '../auth/actor.js'
import { Permission } from '../auth/permissions.js'
import { maxPermissions, maxPermissionsOfRole, maxRoles, maxRolesOfUser, type PlatformRoles } from './service.js'

const Id = Type.String({ format: 'uuid' })
// JSON Schema counts every character as one: half as many characters always fit.
const UserId = Type.String({
  minLength: 1,
  maxLength: maxUserIdLength / 2,
  pattern: storablePattern,
  description: 'The `sub` of the user: with `X-Tenant-ID` a user of that tenant, otherwise a user of the platform.'
})

const Description = Type.Optional(
  OrNull(Type.String({ maxLength: 500, pattern: storablePattern }), 'The purpose of the role or permission.')
)
const RoleName = Type.String({
  minLength: 1,
  maxLength: maxRoleName,
  pattern: roleNamePattern,
  description: `The name: 1 to ${maxRoleName} characters without control characters and without spaces at the ends.`,
  examples: ['editor']
})
const Permissions = Type.Array(Permission, {
  maxItems: maxPermissionsOfRole,
  uniqueItems: true,
  description: 'The permissions of the role, by name. Each must exist.'
})

const NewRole = ClosedObject(
  { name: RoleName, description: Description, permissions: Type.Optional({ ...Permissions, default: [] }) }
)
const RoleChanges = ClosedObject({ name: Type.Optional(RoleName), description: Description, permissions: Type.Optional(Permissions) }, {
  minProperties: 1,
  description: 'Omitted members are not changed; null removes the description.'
})
const NewPermission = ClosedObject({ name: Permission, description: Description })
const Assignment = ClosedObject({ userId: UserId, roleId: Id })
/** Members in the body; the others are in the query string. */
const PartOfAssignment = ClosedObject({ userId: Type.Optional(UserId), roleId: Type.Optional(Id) })

const Role = named(
  'PlatformRole',
  Type.Object({
    id: Id,
    name: Type.String(),
    description: OrNull(Type.String()),
    permissions: Type.Array(Type.String()),
    created_at: Time()
  })
)
const PermissionEntry = named(
  'PlatformPermission',
  Type.Object({ id: Id, name: Type.String(), description: OrNull(Type.String()), created_at: Time() })
)
const Assigned = named('RoleAssignment', Type.Object({ success: Type.Boolean(), userId: Type.String(), roleId: Id }))

const PageQuery = ClosedObject(pageQuery('Entries'))
const UserParams = Type.Object({ id: UserId })

const tags = ['Platform roles']
const config = { access: 'platform-admin' } as const

export function rbacRoutes (app: FastifyGroup, service: PlatformRoles): void {
  roleRoutes(app, service)
  permissionRoutes(app, service)
  assignmentRoutes(app, service)
}

function roleRoutes (app: FastifyGroup, service: PlatformRoles): void {
  const prefix = prefixOf(app)
  app.get('/rbac/roles', {
    config,
    schema: {
      tags,
      summary: 'List roles of the platform',
      querystring: PageQuery,
      response: { 200: ListOf(Role), ...callerErrors() }
    }
  }, (request) => readPage(request, service.roles))

  app.post('/rbac/roles', {
    config: { ...config, idempotency: 'plain', location: true },
    schema: {
      tags,
      summary: 'Create a role',
      description:
        `There can be at most ${maxRoles} roles. A role grants only its permissions: a role named admin does not make its users administrators.`,
      body: NewRole,
      response: { 201: Role, ...callerErrors(409) }
    }
  }, async (request, reply) => {
    const { name, description = null, permissions = [] } = request.body
    const role = await service.createRole({ name, description, permissions }, actorOf(request))
    return reply.code(201).header('location', `${prefix}/rbac/roles/${role.id}`).send(role)
  })

  app.get('/rbac/roles/:id', {
    config,
    schema: { tags, summary: 'Retrieve a role', params: IdParams, response: { 200: Role, ...callerErrors() } }
  }, (request) => service.role(request.params.id))

  app.put('/rbac/roles/:id', {
    config,
    schema: {
      tags,
      summary: 'Update a role',
      description: 'The default role cannot be renamed.',
      params: IdParams,
      body: RoleChanges,
      response: { 200: Role, ...callerErrors(409) }
    }
  }, (request) => service.updateRole(request.params.id, request.body, actorOf(request)))

  app.delete('/rbac/roles/:id', {
    config,
    schema: {
      tags,
      summary: 'Delete a role',
      description: 'The role is unassigned from all users. The default role cannot be deleted.',
      params: IdParams,
      response: { 200: Success, ...callerErrors(409) }
    }
  }, async (request) => {
    await service.deleteRole(request.params.id, actorOf(request))
    return { success: true }
  })
}

function permissionRoutes (app: FastifyGroup, service: PlatformRoles): void {
  app.get('/rbac/permissions', {
    config,
    schema: {
      tags,
      summary: 'List permissions of the platform',
      querystring: PageQuery,
      response: { 200: ListOf(PermissionEntry), ...callerErrors() }
    }
  }, (request) => readPage(request, service.permissions))

  app.post('/rbac/permissions', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Create a permission',
      description: `There can be at most ${maxPermissions} permissions.`,
      body: NewPermission,
      response: { 201: PermissionEntry, ...callerErrors(409) }
    }
  }, async (request, reply) => {
    const { name, description = null } = request.body
    return reply.code(201).send(await service.createPermission({ name, description }, actorOf(request)))
  })

  app.delete('/rbac/permissions/:id', {
    config,
    schema: {
      tags,
      summary: 'Delete a permission',
      description: 'The permission is removed from all roles.',
      params: IdParams,
      response: { 200: Success, ...callerErrors() }
    }
  }, async (request) => {
    await service.deletePermission(request.params.id, actorOf(request))
    return { success: true }
  })
}

function assignmentRoutes (app: FastifyGroup, service: PlatformRoles): void {
  const userOf = ({ tenant }: FastifyRequest, userId: string) => service.userOf(tenantOrPlatform(tenant), userId)

  app.post('/rbac/assign', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Assign a role to a user',
      description:
        `Responds with 200 if the user already has the role. A user can have at most ${maxRolesOfUser} roles. Send \`X-Tenant-ID\` for a user of a tenant. Without it, the request fails with 400 if only a tenant has a user with this id and a password.`,
      body: Assignment,
      response: { 200: Assigned, 201: Assigned, ...callerErrors(409) }
    }
  }, async (request, reply) => {
    const { userId, roleId } = request.body
    const user = await userOf(request, userId)
    const added = await service.assign(user, roleId, actorOf(request))
    return reply.code(added ? 201 : 200).send({ success: true, userId: user.userId, roleId })
  })

  app.delete('/rbac/unassign', {
    config,
    schema: {
      tags,
      summary: 'Unassign a role from a user',
      description: 'Send the user and the role in the body or in the query string.',
      body: PartOfAssignment,
      bodyOptional: true,
      querystring: PartOfAssignment,
      response: { 200: Assigned, ...callerErrors() }
    }
  }, async (request) => {
    const user = await userOf(request, oneOf(request, 'userId'))
    const roleId = oneOf(request, 'roleId')
    await service.unassign(user, roleId, actorOf(request))
    return { success: true, userId: user.userId, roleId }
  })

  app.get('/rbac/users/:id/roles', {
    config,
    schema: {
      tags,
      summary: 'List assigned roles of a user',
      params: UserParams,
      querystring: PageQuery,
      response: { 200: ListOf(Role), ...callerErrors() }
    }
  }, async (request) => pageIn(await service.rolesOf(await userOf(request, request.params.id)), pageOf(request)))

  app.get('/rbac/users/:id/permissions', {
    config,
    schema: {
      tags,
      summary: 'List permissions of a user',
      description: 'If the user has no role, the permissions of the default role.',
      params: UserParams,
      response: {
        200: Type.Object({ permissions: Type.Array(Type.String(), { description: 'The permissions, sorted and without duplicates.' }) }),
        ...callerErrors()
      }
    }
  }, async (request) => ({ permissions: await service.permissionsOf(await userOf(request, request.params.id)) }))
}

/** The value of the body or the query string; `validationFailed` without one, or with two different ones. */
function oneOf ({ body, query }: Readonly<Record<'body' | 'query', Static<typeof PartOfAssignment>>>, member: 'userId' | 'roleId'): string {
  const [inBody, inQuery] = [body[member], query[member]]
  if (inBody === undefined && inQuery === undefined) {
    throw invalidInput(`/body/${member}`, 'is missing: send it here or in the query string', 'required')
  }
  if (inBody !== undefined && inQuery !== undefined && inBody !== inQuery) {
    throw invalidInput(`/query/${member}`, 'must be the same as in the body, or be sent in only one of them', 'const')
  }
  return inBody ?? inQuery ?? ''
}
