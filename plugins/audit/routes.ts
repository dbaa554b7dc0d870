/** `GET /audit`. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { type AuditAction, auditActions, tenantOfEntry } from '../../lib/database/audit.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { endOf, ListOf, pageOf, pageQuery, timeOf, timeQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { OrNull, Time } from '../../lib/http/schemas.js'
import { tenantIdOf, tenantIdPattern } from '../../lib/identity/tenant-ref.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { isPlatformAdmin, platformOnly } from '../auth/access.js'
import { tenantOf } from '../tenancy/required.js'
import { type AuditFilter, type AuditRow, maxCounted } from './store.js'

/** The actions of each value of `action`: an action, or a group such as `secret.*`. */
const asked = actionsByName()

const TenantId = (description: string) =>
  Optional.String(`${description} Only for platform administrators, without \`X-Tenant-ID\`.`, {
    pattern: tenantIdPattern,
    expected: 'the id of a tenant: 1 to 64 of `A-Z a-z 0-9 _ -`'
  })
const Outcome = Type.Enum(['success', 'failure'], { description: 'The outcome of the action.' })
const Query = ClosedObject({
  from: timeQuery('The start: a date in UTC, or a date and time. Default: the oldest entry.'),
  to: timeQuery('The end: a date in UTC, including that whole day, or a date and time, which is excluded. Default: now.'),
  action: Optional.Enum('An action, or a group of actions.', [...asked.keys()]),
  userId: Optional.String('The `sub` of the user who performed the action.', { minLength: 1, maxLength: 1024 }),
  target: Optional.String('The target of the action, such as a key, a role or the id of a tenant.', { minLength: 1, maxLength: 1024 }),
  outcome: Type.Optional(Outcome),
  tenantId: TenantId('The id of a tenant whose entries are listed.'),
  deletedTenant: TenantId('The id of a deleted tenant whose entries are listed.'),
  ...pageQuery('Entries', maxCounted)
})

const Entry = named(
  'AuditEntry',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    timestamp: Time('The time of the action. For uses of a secret, the time of the first use in the hour.'),
    action: Type.String({ description: 'The name of the action.' }),
    userId: OrNull(Type.String(), 'The `sub` of the user who performed the action; null for the server itself and for unauthenticated callers.'),
    tenantId: OrNull(Type.String(), 'The id of the tenant that the entry belongs to; null for entries of the platform.'),
    tenantDeleted: Type.Boolean(
      { description: 'True if the tenant of this entry was deleted. A current tenant with the same id is a different tenant.' }
    ),
    target: OrNull(Type.String(), 'The target of the action.'),
    address: OrNull(
      Type.String(),
      'The IP address of the request; null if there was no request, and if a platform administrator acted on a tenant.'
    ),
    outcome: Outcome,
    count: Type.Integer({ description: 'The number of uses of a secret within one hour, for `secret.access`; otherwise 1.' }),
    details: OrNull(Type.Record(Type.String(), Type.Unknown()), 'Further details of the action.')
  })
)

export function auditRoutes (app: FastifyGroup): void {
  const { audit } = app

  app.get('/audit', {
    config: { access: 'tenant-admin', permission: 'audit:read' },
    schema: {
      tags: ['Audit'],
      summary: 'List audit log entries, newest first',
      description:
        `A tenant sees its entries for the retention period of its plan. A platform administrator sees the entries of all tenants and of the platform; with \`X-Tenant-ID\` or \`tenantId\` the entries of that tenant; with \`deletedTenant\` the entries of a deleted tenant. \`total\` counts up to ${maxCounted}.`,
      querystring: Query,
      response: { 200: ListOf(Entry), ...callerErrors() }
    }
  }, async (request) => {
    const { userId, action, target, outcome } = request.query
    const page = pageOf(request)
    const { data, total } = await audit.page({
      ...timesOf(request.query),
      ...tenantFilter(request),
      userId,
      target,
      outcome,
      actions: action === undefined ? undefined : asked.get(action)
    }, page)
    return { data: data.map(shownEntry), pagination: { ...page, total } }
  })
}

/**
 * The tenant of the request, or the one that its query names; empty for all entries. The latter two are for platform administrators only.
 */
function tenantFilter (request: FastifyRequest & { readonly query: Static<typeof Query> }): Pick<AuditFilter, 'tenant' | 'deletedTenant'> {
  const { auth, tenant, query: { tenantId, deletedTenant } } = request
  const platform = auth !== null && isPlatformAdmin(auth)
  if (tenantId === undefined && deletedTenant === undefined) return tenant === null && platform ? {} : { tenant: tenantOf(request) }
  if (!platform) throw platformOnly()
  if (tenant !== null) {
    throw invalidInput(
      `/query/${tenantId === undefined ? 'deletedTenant' : 'tenantId'}`,
      'must be sent without the header X-Tenant-ID',
      'not'
    )
  }
  if (tenantId !== undefined && deletedTenant !== undefined) {
    throw invalidInput('/query/deletedTenant', 'must be sent without `tenantId`', 'not')
  }
  return { tenant: tenantId === undefined ? undefined : tenantIdOf(tenantId), deletedTenant }
}

function timesOf ({ from, to }: Static<typeof Query>): { from?: Date, until?: Date } {
  const begin = from === undefined ? undefined : timeOf(from, '/query/from')
  const end = to === undefined ? undefined : endOf(to, '/query/to')
  if (begin !== undefined && end !== undefined && begin > end) throw invalidInput('/query/from', 'must not be after `to`', 'maximum')
  return { ...begin !== undefined && { from: new Date(begin) }, ...end !== undefined && { until: new Date(end) } }
}

function shownEntry ({ tenant, ...entry }: AuditRow): Static<typeof Entry> {
  const { id, deleted } = tenantOfEntry(tenant)
  return { ...entry, tenantId: id, tenantDeleted: deleted }
}

function actionsByName (): ReadonlyMap<string, readonly AuditAction[]> {
  const byName = new Map<string, AuditAction[]>()
  for (const action of auditActions) {
    const parts = action.split('.')
    const groups = parts.slice(1).map((_part, index) => `${parts.slice(0, index + 1).join('.')}.*`)
    for (const name of [action, ...groups]) byName.set(name, [...byName.get(name) ?? [], action])
  }
  return byName
}
