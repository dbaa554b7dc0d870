/** `GET /audit`. */
import type {} from '../auth/index.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AuditFilter, AuditRow } from './store.js'
import { Type, type Static } from 'typebox'
import { auditActions, tenantOfEntry, type AuditAction } from '../../lib/database/audit.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { insufficientPermissions, isPlatformAdmin } from '../auth/access.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageOf, pageQuery } from '../../lib/http/page.js'
import { endOf, timeOf } from '../../lib/http/time-range.js'
import { tenantOf } from '../tenancy/required.js'
import { named } from '../../lib/validation/named-schema.js'
import { maxCounted } from './store.js'
import { tenantIdOf } from '../../lib/identity/tenant-ref.js'

const maxTimeLength = 64 // characters of a date and time

/** The actions of each value of `action`: an action, or a group such as `secret.*`. */
const asked = actionsByName()

const Time = (description: string) =>
  Type.Optional(Type.String({ maxLength: maxTimeLength, description, examples: ['2026-01-31', '2026-01-31T12:00:00Z'] }))
const TenantId = (description: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      expected: 'the id of a tenant: 1 to 64 of `A-Z a-z 0-9 _ -`',
      description: `${description} For platform administrators, without \`X-Tenant-ID\`.`
    })
  )
const Outcome = Type.Enum(['success', 'failure'], { description: 'How it ended.' })
const Query = Type.Object({
  from: Time('A date of UTC, or a date and time. Default: as far back as entries are kept.'),
  to: Time('A date of UTC, which is the whole of that day, or a date and time, which is not in it. Default: now.'),
  action: Type.Optional(Type.Enum([...asked.keys()], { description: 'What was done, or a group of it.' })),
  userId: Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description: 'The `sub` of who did it.' })),
  target: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1024, description: 'What it was done to: a key, a role, the id of a tenant.' })
  ),
  outcome: Type.Optional(Outcome),
  tenantId: TenantId('The id of a tenant, for its entries.'),
  deletedTenant: TenantId('The id of a deleted tenant, for its entries.'),
  ...pageQuery('Entries', maxCounted)
}, { additionalProperties: false })

const orNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const Entry = named(
  'AuditEntry',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    timestamp: Type.String({ format: 'date-time', description: 'When; of uses of a secret, when the first of the hour was counted.' }),
    action: Type.String({ description: 'What was done.' }),
    userId: orNull('The `sub` of who did it; null for the server itself, and for strangers.'),
    tenantId: orNull("Whose entry it is; null for the platform's own."),
    tenantDeleted: Type.Boolean({ description: 'The tenant of the entry was deleted. A tenant that has the id now is another one.' }),
    target: orNull('What it was done to.'),
    address: orNull("Where the request came from; null where there was none, and for the platform's administrators who act on a tenant."),
    outcome: Outcome,
    count: Type.Integer({ description: 'How many uses a `secret.access` stands for: those of one hour. Else 1.' }),
    details: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], { description: 'Further facts.' })
  })
)

export function auditRoutes (app: FastifyInstance): void {
  const { audit } = app

  app.get<{ Querystring: Static<typeof Query> }>('/audit', {
    config: { access: 'tenant-admin', permission: 'audit:read' },
    schema: {
      tags: ['Audit'],
      summary: 'List audit log entries, newest first',
      description:
        `A tenant's entries as far back as its plan keeps them; for platform administrators those of all tenants and of the platform, with \`X-Tenant-ID\` or \`tenantId\` those of that tenant, or with \`deletedTenant\` those of a deleted one. \`total\` counts up to ${maxCounted}.`,
      querystring: Query,
      response: { 200: ListOf(Entry), ...errorResponses(400, 401, 403, 404, 429, 500, 503) }
    }
  }, async (request) => {
    const { userId, action, target, outcome } = request.query
    const page = pageOf(request)
    const { data, total } = await audit.page({
      ...timesOf(request.query),
      ...whose(request),
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
function whose (request: FastifyRequest<{ Querystring: Static<typeof Query> }>): Pick<AuditFilter, 'tenant' | 'deletedTenant'> {
  const { auth, tenant, query: { tenantId, deletedTenant } } = request
  const platform = auth !== null && isPlatformAdmin(auth)
  if (tenantId === undefined && deletedTenant === undefined) return tenant === null && platform ? {} : { tenant: tenantOf(request) }
  if (!platform) throw insufficientPermissions()
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

function shownEntry ({ tenant, timestamp, ...entry }: AuditRow): Static<typeof Entry> {
  const { id, deleted } = tenantOfEntry(tenant)
  return { ...entry, timestamp: timestamp.toISOString(), tenantId: id, tenantDeleted: deleted }
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
