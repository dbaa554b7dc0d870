/** The secrets endpoints and their schemas. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { IfMatchHeaders, ifMatchOf } from '../../lib/http/caching.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { ListOf, PageInfo, pageOf, pageQuery, searchQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { OrNull, Success, Time } from '../../lib/http/schemas.js'
import { sendText } from '../../lib/http/send-text.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { maxCounted } from '../audit/store.js'
import { actorOf } from '../auth/actor.js'
import { tenantOf } from '../tenancy/required.js'
import { type AuditRow, maxGraceDays, maxMetadataBytes, maxValueBytes, type Secrets } from './service.js'
import type { ListedRow } from './store.js'

const bodyLimit = 204_800 // bytes: the largest value, written as `\uXXXX`, and metadata

const Key = Type.String({
  pattern: '^[A-Za-z0-9_.-]{1,128}$',
  description: 'The key of the secret: 1 to 128 of `A-Z a-z 0-9 _ . -`.',
  examples: ['payprov_api_key']
})
const Value = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: maxValueBytes,
    description: `${description} 1 to ${maxValueBytes} bytes of UTF-8. It is never returned.`
  })
const Metadata = Type.Record(Type.String(), Type.Unknown(), {
  description: `Any details, such as type, provider and description; at most ${maxMetadataBytes} bytes of JSON. Metadata is not encrypted.`
})

const PutBody = ClosedObject({
  key: Key,
  value: Value('The value of the secret.'),
  metadata: Type.Optional(Metadata),
  expiresAt: Type.Optional(
    OrNull(Type.String({ format: 'date-time' }), 'The time from which the value is null. It must be in the future. null: never.')
  )
}, {
  description: 'Storing an existing key updates it. Omitted members are not changed, except an expiry in the past, which is removed.'
})

const rotation = {
  newValue: Value('The new value.'),
  gracePeriodDays: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: maxGraceDays,
      default: 0,
      description:
        'The number of days for which the previous value is also accepted for signatures of incoming requests. Values of earlier rotations keep their own expiry.'
    })
  ),
  endEarlier: Type.Optional(
    Type.Boolean(
      { default: false, description: 'If true, the values of earlier rotations expire immediately. Use this after a value was disclosed.' }
    )
  )
}
const RotateBody = ClosedObject(rotation)
const RotateKeyBody = ClosedObject({ key: Key, ...rotation })
const KeyParams = Type.Object({ key: Key })

const Secret = named(
  'Secret',
  Type.Object({
    key: Type.String(),
    createdAt: Time('The time at which the key was first stored.'),
    lastAccessedAt: OrNull(Time(), 'The time of the last use of the value, updated every few seconds.'),
    accessCount: Type.Integer({ description: 'The number of uses of the value.' }),
    expiresAt: OrNull(Time(), 'The time at which the value expires; null if it never expires.'),
    metadata: Metadata
  })
)
const ListQuery = ClosedObject({ ...searchQuery('the key'), ...pageQuery('Secrets') })
const List = Type.Object({ secrets: Type.Array(Secret, { description: 'The secrets, sorted by key.' }), pagination: PageInfo })
const Stored = named('StoredSecret', Type.Object({ success: Type.Boolean(), key: Type.String() }))
const Rotated = named(
  'RotatedSecret',
  Type.Object({ success: Type.Boolean(), oldKeyValidUntil: Time('The time until which the previous value is accepted.') })
)

const AuditQuery = ClosedObject({ ...pageQuery('Entries', maxCounted), key: Type.Optional(Key) })
const AuditEntry = named(
  'SecretAuditEntry',
  Type.Object({
    timestamp: Time('The time of the action. For uses, the time of the first use in the hour.'),
    action: Type.String({
      enum: ['create', 'update', 'access', 'delete', 'rotate', 'expire'],
      description: 'The action. `access`: the server used the value.'
    }),
    userId: OrNull(Type.String(), 'The `sub` of the user who performed the action; null for the server itself.'),
    key: Type.String(),
    count: Type.Optional(Type.Integer({ description: 'The number of uses within one hour that an `access` entry counts.' }))
  })
)
const Audit = ListOf(AuditEntry)

const tags = ['Secrets']
const config = { access: 'tenant-admin', permission: 'secrets:write' } as const

export function secretRoutes (app: FastifyGroup, service: Secrets): void {
  app.get('/tenant/secrets', {
    config,
    schema: {
      tags,
      summary: 'List secrets of the tenant, without their values',
      querystring: ListQuery,
      response: { 200: List, ...callerErrors() }
    }
  }, async (request, reply) => {
    const page = pageOf(request)
    const { secrets, total, tag } = await service.page(tenantOf(request), { ...page, search: request.query.search })
    // No 304: uses of secrets change the response without changing its tag.
    reply.header('etag', tag)
    return sendText(reply, `{"secrets":[${secrets.map(shown).join(',')}],"pagination":${JSON.stringify({ ...page, total })}}`)
  })

  app.post('/tenant/secrets', {
    config: { ...config, idempotency: 'encrypted' },
    bodyLimit,
    schema: {
      tags,
      summary: 'Store a secret',
      headers: IfMatchHeaders,
      body: PutBody,
      response: { 200: Stored, 201: Stored, ...callerErrors('planLimit', 409, 412, 413) }
    }
  }, async (request, reply) => {
    const { expiresAt, ...secret } = request.body
    const input = { ...secret, expiresAt: typeof expiresAt === 'string' ? new Date(expiresAt) : expiresAt }
    const done = await service.put(tenantOf(request), input, actorOf(request), ifMatchOf(request))
    return reply.code(done === 'created' ? 201 : 200).send({ success: true, key: secret.key })
  })

  app.delete('/tenant/secrets/:key', {
    config,
    schema: {
      tags,
      summary: 'Delete a secret',
      description: 'The value is deleted; the audit log entries are kept.',
      headers: IfMatchHeaders,
      params: KeyParams,
      response: { 200: Success, ...callerErrors(412) }
    }
  }, async (request) => {
    await service.delete(tenantOf(request), request.params.key, actorOf(request), ifMatchOf(request))
    return { success: true }
  })

  app.post('/tenant/secrets/:key/rotate', {
    config: { ...config, idempotency: 'encrypted' },
    bodyLimit,
    schema: {
      tags,
      summary: 'Rotate a secret',
      headers: IfMatchHeaders,
      params: KeyParams,
      body: RotateBody,
      response: { 200: Rotated, ...callerErrors('planLimit', 409, 412, 413) }
    }
  }, async (request) => await rotate(request, { ...request.body, key: request.params.key }))

  app.post('/tenant/secrets/rotate', {
    config: { ...config, idempotency: 'encrypted' },
    bodyLimit,
    schema: {
      tags,
      summary: 'Rotate a secret named in the body',
      headers: IfMatchHeaders,
      body: RotateKeyBody,
      response: { 200: Rotated, ...callerErrors('planLimit', 409, 412, 413) }
    }
  }, async (request) => await rotate(request, request.body))

  app.get('/tenant/secrets/audit', {
    config,
    schema: {
      tags,
      summary: 'List audit log entries of secrets, newest first',
      description: `Lists entries within the retention period of the plan; \`total\` counts up to ${maxCounted}.`,
      querystring: AuditQuery,
      response: { 200: Audit, ...callerErrors() }
    }
  }, async (request) => {
    const page = pageOf(request)
    const { data, total } = await service.audit(tenantOf(request), { ...page, key: request.query.key })
    return { data: data.map(shownEntry), pagination: { ...page, total } }
  })

  async function rotate (request: FastifyRequest, { gracePeriodDays = 0, ...sent }: Static<typeof RotateKeyBody>) {
    const rotation = { ...sent, gracePeriodDays }
    return { success: true, oldKeyValidUntil: await service.rotate(tenantOf(request), rotation, actorOf(request), ifMatchOf(request)) }
  }
}

/** As JSON text; the stored metadata is inserted without parsing it. */
function shown ({ metadata, ...others }: ListedRow): string {
  return `${JSON.stringify(others).slice(0, -1)},"metadata":${metadata}}`
}

function shownEntry ({ timestamp, action, userId, key, count }: AuditRow): Static<typeof AuditEntry> {
  return { timestamp, action, userId, key, ...action === 'access' && { count } }
}
