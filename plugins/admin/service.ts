/** Rows of the application's tables for administrators: read, deleted and restored, each with its entry in the audit log. */
import type { FastifyInstance } from 'fastify'
import { type AuditAction, type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import { type Table, tenantColumn } from '../../lib/database/catalogue.js'
import type { SessionOptions } from '../../lib/database/engine.js'
import { failure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import type { Scope, ScopeTenant } from '../../lib/expressions/types.js'
import { noTenant, platformRef, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { parseResult } from '../../lib/json/parse.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { optional } from '../../lib/plugin/define.js'
import type { Query } from '../../lib/schema/query.js'
import { type AuditedWrite, writeAudited } from '../audit/audited-write.js'
import { type ActingRequest, actorOf } from '../auth/actor.js'
import { requireActive } from '../tenancy/tenant.js'
import { readFilters } from './filters.js'
import { readOrder } from './order.js'
import type { Reach } from './reach.js'
import { createShapes, type Places, type ShapeQuery } from './shapes.js'
import { keyOf, refused, requireSoftDelete, requireWritable, tableOf } from './tables.js'

export interface Caller {
  readonly request: ActingRequest
  /** null only for the platform's administrators. */
  readonly tenant: ScopeTenant | null
  /** A platform administrator, who may also see tables without a tenant. */
  readonly platform: boolean
}

export interface ListQuery {
  readonly filter?: Readonly<Record<string, unknown>> | undefined
  readonly order?: string | undefined
  readonly select?: string | undefined
  readonly includeDeleted?: boolean | undefined
  readonly limit: number
  readonly offset: number
}

/** Every method returns JSON text, and throws `notFound` for a table that does not exist or is invisible to the caller. */
export type Entities = ReturnType<typeof createEntities>

const byId = '{{params.id}}'

export function createEntities (app: FastifyInstance) {
  const { engine, tenants } = app
  const [cache, files, webhooks] = [optional(app, 'cache'), optional(app, 'routeFiles'), optional(app, 'webhooks')]
  const shapes = createShapes(engine, () => files()?.rules.deletedWithRows === true)

  /** The reach of the caller; throws `tenantRequired` if it would be every tenant's rows and these cannot be read together. */
  function reachOf ({ platform, tenant }: Caller, table: Table): Reach {
    if (!platform) return 'tenant'
    if (tenant !== null) return 'platform'
    if (!engine.rowLevelSecurity) return 'every'
    if (table.tenantScoped) {
      throw failure('tenantRequired', {
        message:
          `The rows of "${table.name}" are protected by row-level security and can be read for one tenant at a time: send the X-Tenant-ID header`
      })
    }
    return 'platform'
  }

  /**
   * The tenant of a row that the platform names without a tenant. Throws `notFound`, and `tenantRequired` if rows of several tenants have
   * the id. null for a row without a tenant.
   */
  async function tenantOfRow (table: Table, id: string, includeDeleted: boolean): Promise<string | null> {
    const column = keyOf(table)
    const query: Query = {
      table: table.name,
      operation: 'select',
      select: tenantColumn,
      filters: [{ column, operator: 'eq', value: byId }]
    }
    const { bound } = shapes.bind({ reach: 'every', includeDeleted, query }, scopeOf(null, { id }, { limit: 2, offset: 0 }), inRequest)
    const [first, second] = recordsOf(await engine.text(bound.statement, bound.values, { tenant: platformRef }))
    if (first === undefined) throw failure('notFound')
    if (second !== undefined) {
      throw failure('tenantRequired', {
        message: `Several tenants have a row with this id in "${table.name}": send the X-Tenant-ID header`
      })
    }
    const tenant = first[tenantColumn] ?? null
    return tenant === null ? null : String(tenant)
  }

  /** The tenant of the written row; null for a table without tenants. Throws if the request cannot act for that tenant. */
  async function ownerOf (caller: Caller, table: Table, id: string, includeDeleted: boolean): Promise<ScopeTenant | null> {
    if (!table.tenantScoped) return null
    if (caller.tenant !== null) return caller.tenant
    reachOf(caller, table)
    const name = await tenantOfRow(table, id, includeDeleted)
    if (name === null) {
      throw failure('stateConflict', { message: `The row of "${table.name}" belongs to no tenant: give it a tenant_id first` })
    }
    const owner = await tenants.get(name)
    if (owner === null) throw failure('tenantUnknown')
    requireActive(owner, { byPlatform: true })
    return owner
  }

  /** The target of entries, with the key of the row itself: a caller may also write `007` for 7. Throws `notFound`. */
  async function targetOf (reach: Reach, tenant: ScopeTenant | null, table: Table, id: string, includeDeleted: boolean): Promise<string> {
    const column = keyOf(table)
    const query: Query = {
      table: table.name,
      operation: 'select',
      single: true,
      select: `key:"${column.replaceAll('"', '""')}"`,
      filters: [{ column, operator: 'eq', value: byId }]
    }
    const { bound } = shapes.bind({ reach, includeDeleted, query }, scopeOf(tenant, { id }), inRequest)
    const text = await engine.text(bound.statement, bound.values, sessionOf(tenant))
    if (text === null) throw failure('notFound')
    const { key }: { key?: unknown } = Object(parseResult(text))
    return `${table.name}:${typeof key === 'string' ? key : stringifyJson(key)}`
  }

  /** The scope of a write on behalf of the row's tenant. Throws as `keyOf` and `ownerOf`. */
  async function writeScope (caller: Caller, table: Table, id: string, includeDeleted: boolean): Promise<Scope> {
    keyOf(table)
    const owner = await ownerOf(caller, table, id, includeDeleted)
    return scopeOf(owner, { id }, {}, await webhooks()?.hasSubscribers(tenantOrPlatform(owner)) ?? false)
  }

  function write (
    { tenant, events = false }: Scope,
    { compiled, bound }: ShapeQuery,
    entry: AuditEntry,
    missing: AuditedWrite['missing']
  ): Promise<string> {
    return writeAudited({ engine, cache: cache(), webhooks: webhooks() }, {
      tenant: tenantOrPlatform(tenant),
      compiled,
      bound,
      events,
      entry: () => entry,
      missing
    })
  }

  /** Writes a read to the audit log of the tenant, or of the platform for null, before the response. */
  async function auditRead (
    caller: Caller,
    owner: ScopeTenant | null,
    entry: Pick<AuditEntry, 'action' | 'target' | 'details'>
  ): Promise<void> {
    await writeAudit(owner === null ? engine.kysely : engine.kyselyFor(owner.id), entryOf(caller, owner, entry))
  }

  /** The tenant of that id, if it can have entries: not while it is being deleted. */
  async function withLog (id: string | null): Promise<ScopeTenant | null> {
    const tenant = id === null ? null : await tenants.get(id)
    return tenant?.status === 'deleting' ? null : tenant
  }

  return {
    /** `{"data":[...],"pagination":{...}}` */
    async list (
      caller: Caller,
      name: string,
      { filter = {}, order, select, includeDeleted = false, limit, offset }: ListQuery
    ): Promise<string> {
      const table = tableOf(engine.catalogue, name, ownReach(caller))
      const reach = reachOf(caller, table)
      const { filters, values, places, named } = readFilters(filter, table)
      const query: Query = {
        table: name,
        operation: 'select',
        ...filters.length > 0 && { filters: [...filters] },
        ...order !== undefined && { order: readOrder(order) },
        ...select !== undefined && { select }
      }
      const { bound } = shapes.bind(
        { reach, includeDeleted, query },
        { ...scopeOf(caller.tenant, {}, { limit, offset }), body: values },
        placesOf(places)
      )
      const text = await engine.text(bound.statement, bound.values, sessionOf(caller.tenant))
      await auditRead(caller, table.tenantScoped ? caller.tenant : null, {
        action: 'entity.list',
        target: name,
        details: { ...named.length > 0 && { filters: named }, ...includeDeleted && { includeDeleted } }
      })
      // A page exists even if it is empty.
      return text ?? ''
    },

    /** The record; throws `notFound`. */
    async one (
      caller: Caller,
      name: string,
      id: string,
      { select, includeDeleted = false }: Pick<ListQuery, 'select' | 'includeDeleted'>
    ): Promise<string> {
      const table = tableOf(engine.catalogue, name, ownReach(caller))
      const column = keyOf(table)
      const reach = reachOf(caller, table)
      const owner = table.tenantScoped ? caller.tenant ?? await withLog(await tenantOfRow(table, id, includeDeleted)) : null
      // Over all tenants, the key has a further column, which the id does not contain.
      const query: Query = {
        table: name,
        operation: 'select',
        single: true,
        filters: [{ column, operator: 'eq', value: byId }],
        ...select !== undefined && { select }
      }
      const target = await targetOf(reach, caller.tenant, table, id, includeDeleted)
      const { bound } = shapes.bind({ reach, includeDeleted, query }, scopeOf(caller.tenant, { id }), inRequest)
      const text = await engine.text(bound.statement, bound.values, sessionOf(caller.tenant))
      if (text === null) throw failure('notFound')
      await auditRead(caller, owner, {
        action: 'entity.read',
        target,
        ...includeDeleted && { details: { includeDeleted } }
      })
      return text
    },

    /** Marks the row as deleted, or with `hard` removes it, marked or not: `{"success":true}`, with `"softDeleted":true` for a mark. */
    async remove (caller: Caller, name: string, id: string, hard: boolean): Promise<string> {
      const table = tableOf(engine.catalogue, name, ownReach(caller))
      requireWritable(table)
      if (!hard) requireSoftDelete(engine.catalogue.schema, table, '. Use ?hard=true to remove the row permanently')
      const scope = await writeScope(caller, table, id, hard)
      const query: Query = { table: name, operation: 'delete', id: byId }
      const asked = shapes.bind({ reach: 'platform', includeDeleted: hard, query }, scope, inRequest)
      const target = await targetOf('platform', scope.tenant, table, id, hard)
      const entry = entryOf(caller, scope.tenant, { action: 'entity.delete', target, details: { table: name, hard } })
      try {
        return await write(scope, asked, entry, async () => failure('notFound'))
      } catch (error) {
        throw hard ? refused(error, engine.catalogue, ownReach(caller)) : error
      }
    },

    /** The record, without its mark; throws `stateConflict` if it was not marked. */
    async restore (caller: Caller, name: string, id: string): Promise<string> {
      const table = tableOf(engine.catalogue, name, ownReach(caller))
      requireWritable(table)
      requireSoftDelete(engine.catalogue.schema, table)
      const scope = await writeScope(caller, table, id, true)
      const query: Query = {
        table: name,
        operation: 'update',
        id: byId,
        filters: [{ column: 'deleted', operator: 'is', value: true }],
        data: { ...table.columns.get('deleted')?.generated !== true && { deleted: false }, deleted_at: null }
      }
      const asked = shapes.bind({ reach: 'platform', includeDeleted: true, query }, scope, inRequest)
      const { bound } = shapes.bind(
        { reach: 'platform', includeDeleted: true, query: { table: name, operation: 'select', id: byId } },
        scope,
        inRequest
      )
      const target = await targetOf('platform', scope.tenant, table, id, true)
      const entry = entryOf(caller, scope.tenant, { action: 'entity.restore', target, details: { table: name } })
      const record = await write(scope, asked, entry, async (session) => {
        const found = await session.text(bound.statement, bound.values)
        return found === null ? failure('notFound') : failure('stateConflict', { message: 'The row is not marked as deleted' })
      })
      return `{"success":true,"data":${record}}`
    }
  }
}

/** Checks the caller's reach before the database is used. */
function ownReach ({ platform }: Caller): Reach {
  return platform ? 'platform' : 'tenant'
}

function sessionOf (tenant: ScopeTenant | null): SessionOptions {
  return { tenant: tenant?.id ?? noTenant }
}

function entryOf (
  { request }: Caller,
  owner: ScopeTenant | null,
  entry: { readonly action: AuditAction, readonly target?: AuditEntry['target'], readonly details?: AuditEntry['details'] }
): AuditEntry {
  const { auth, ip } = request
  return { ...entry, tenant: tenantOrPlatform(owner), actor: actorOf({ auth, ip, tenant: owner }), at: new Date() }
}

/** Everything that a query of this plugin reads: values are never evaluated as templates. */
function scopeOf (tenant: ScopeTenant | null, params: Scope['params'], query: Scope['query'] = {}, events = false): Scope {
  return { ...noScope, params, query, tenant, fullAccess: true, events }
}

function recordsOf (text: string | null): Record<string, unknown>[] {
  const { data }: { data?: unknown } = Object(parseResult(text ?? '{}'))
  return Array.isArray(data) ? data.filter(isRecord) : []
}

/** The places of a list's members in its request. */
function placesOf (filters: readonly string[]): Places {
  return (pointer) => {
    const [, index] = /^\/(?:filters\/|body\/f)(\d+)(?:\/|$)/.exec(pointer) ?? []
    if (index !== undefined) return filters[Number(index)] ?? pointer
    return inRequest(pointer)
  }
}

const inRequest: Places = (pointer) => {
  const [, member = ''] = pointer.split('/')
  return member === 'select' || member === 'order' ? `/query/${member}` : pointer
}
