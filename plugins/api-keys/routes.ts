/** The endpoints of API keys and their schemas. */
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { isFound, ListOf, pageIn, pageOf, pageQuery, searchQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { IdParams, OrNull, Success, Time } from '../../lib/http/schemas.js'
import { storablePattern } from '../../lib/json/storable.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf, authorOf } from '../auth/actor.js'
import { Permission } from '../auth/permissions.js'
import { tenantOf } from '../tenancy/required.js'
import { type ApiKeys, maxGraceDays, maxKeys } from './service.js'

const Id = Type.String({ format: 'uuid' })
const KeyText = Type.String({ description: 'The API key, which is shown only once. Send it in the header `x-api-key`.' })

const shown = {
  id: Id,
  name: Type.String(),
  scopes: Type.Array(Type.String(), { description: 'The permissions of requests with this key.' }),
  createdAt: Time('The time of the creation.'),
  createdBy: Type.String({ description: 'The `sub` of the user who created the key.' }),
  expiresAt: OrNull(Time(), 'The time at which the key expires; null if it never expires.'),
  lastUsedAt: OrNull(Time(), 'The time of the last use, accurate to the minute; null if the key was never used.')
}
const ListQuery = ClosedObject({ ...searchQuery('the name'), ...pageQuery('Keys') })
const List = ListOf(named('ApiKey', Type.Object(shown)))
const Made = named('NewApiKey', Type.Object({ key: KeyText, ...shown }))

const NewKey = ClosedObject({
  name: Type.String({ minLength: 1, maxLength: 200, pattern: storablePattern, description: 'The purpose of the key.' }),
  scopes: Type.Optional(
    Type.Array(Permission, {
      maxItems: 100,
      uniqueItems: true,
      default: [],
      description: 'The permissions of requests with this key. Default: none.'
    })
  ),
  expiresAt: Type.Optional(
    OrNull(Type.String({ format: 'date-time' }), 'The time at which the key expires. It must be in the future. Default: never.')
  )
})

const Rotation = ClosedObject({
  gracePeriodDays: Type.Optional(
    Type.Integer(
      { minimum: 0, maximum: maxGraceDays, default: 0, description: 'The number of days for which the previous key stays valid.' }
    )
  )
})
const Rotated = named('RotatedApiKey', Type.Object(
  { id: Id, key: KeyText, oldKeyValidUntil: Time('The time until which the previous key stays valid.') }
))

const tags = ['API keys']
const config = { access: 'tenant-admin', permission: 'api-keys:write' } as const
/** Of the endpoints that end access, and of the list that they need. */
const revoking = { ...config, callerLimit: true } as const

export function apiKeyRoutes (app: FastifyGroup, service: ApiKeys, now: () => number): void {
  app.get('/tenant/api-keys', {
    config: revoking,
    schema: {
      tags,
      summary: 'List API keys of the tenant, oldest first',
      querystring: ListQuery,
      response: { 200: List, ...callerErrors() }
    }
  }, async (request) => {
    const { search } = request.query
    const keys = (await service.list(tenantOf(request))).filter(({ name }) => isFound(search, name))
    return pageIn(keys, pageOf(request))
  })

  app.post('/tenant/api-keys', {
    config: { ...config, idempotency: 'encrypted' },
    schema: {
      tags,
      summary: 'Create an API key',
      description:
        `A caller who is not an administrator can grant a key only permissions that the caller has. A key that an API key creates expires with it at the latest. A tenant has at most ${maxKeys} keys.`,
      body: NewKey,
      response: { 201: Made, ...callerErrors(409) }
    }
  }, async (request, reply) => {
    const { name, scopes = [], expiresAt } = request.body
    const key = { name, scopes, expiresAt: futureTime(expiresAt, now()) }
    return reply.code(201).send(await service.create(tenantOf(request), key, await authorOf(request)))
  })

  app.delete('/tenant/api-keys/:id', {
    config: revoking,
    schema: {
      tags,
      summary: 'Revoke an API key',
      description: 'The keys that were created or rotated with it end too, and the invitations that these keys sent.',
      params: IdParams,
      response: { 200: Success, ...callerErrors() }
    }
  }, async (request) => {
    await service.delete(tenantOf(request), request.params.id, actorOf(request))
    return { success: true }
  })

  app.post('/tenant/api-keys/:id/rotate', {
    config: { ...revoking, idempotency: 'encrypted' },
    schema: {
      tags,
      summary: 'Rotate an API key',
      description: 'The key keeps its id and scopes. Without a grace period, the invitations that it sent end. A caller who is not an administrator must have all scopes of the key. An API key cannot rotate a key that expires later.',
      params: IdParams,
      body: Rotation,
      bodyOptional: true,
      response: { 200: Rotated, ...callerErrors(409) }
    }
  }, async (request) => {
    const { params: { id }, body: { gracePeriodDays = 0 } } = request
    return await service.rotate(tenantOf(request), id, gracePeriodDays, await authorOf(request))
  })
}

function futureTime (text: string | null | undefined, now: number): Date | null {
  if (text === null || text === undefined) return null
  const time = new Date(text)
  // A leap second matches the format, but is not a valid time here.
  if (time.getTime() > now) return time
  throw invalidInput('/body/expiresAt', 'must be in the future', 'minimum')
}
