/** The endpoints of rows and their schemas. */
import type { FastifyRequest, preValidationHookHandler } from 'fastify'
import { Type } from 'typebox'
import { notReached, withNote } from '../../lib/firestore/unsupported.js'
import { callerErrors, errorWith } from '../../lib/http/error-schemas.js'
import { ListOf, pageOf, pageQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody } from '../../lib/http/schemas.js'
import { sendText } from '../../lib/http/send-text.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { pointerTo } from '../../lib/schema/faults.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { isPlatformAdmin } from '../auth/access.js'
import { tenantOf } from '../tenancy/required.js'
import { isFilter } from './filters.js'
import type { Caller, Entities } from './service.js'

const maxText = 1000 // characters of `select` and of `order`
const maxId = 1024 // characters
const maxShown = 100 // characters of a name that a caller sent

const Table = Type.String({ minLength: 1, description: 'A table of the application.' })
const Tables = Type.Object({ table: Table })
const Row = Type.Object({ table: Table, id: Type.String({ minLength: 1, maxLength: maxId, description: 'The primary key of the row.' }) })

const reading = {
  select: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxText,
      description: 'The columns and embedded tables, as in `select` of a query. Default: `*`.',
      examples: ['id, title, reviews(*)']
    })
  ),
  includeDeleted: Type.Optional(
    Type.Boolean({ description: 'Include rows that are marked as deleted, embedded rows too. Default: false.' })
  )
}
const One = ClosedObject(reading)
const Many = ClosedObject({
  ...reading,
  filter: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'Filters as `filter[column]=operator.value`, combined with AND: `filter[title]=eq.Bread`, `filter[id]=in.(1,2)`, `filter[note]=not.is.null`. The operators are those of queries.'
    })
  ),
  order: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxText,
      description:
        'The columns to sort by, each with `.asc` or `.desc`, optionally followed by `.nullsfirst` or `.nullslast`. Ties are sorted by the primary key.',
      examples: ['title.desc,id.asc']
    })
  ),
  ...pageQuery('Rows')
})
const Removal = ClosedObject({
  hard: Type.Optional(Type.Boolean({ description: 'Permanently remove the row, even if it is marked as deleted. Default: false.' })),
  softDelete: Type.Optional(Type.Boolean({ description: '`softDelete=false` has the effect of `hard=true`.' }))
})

const Entity = named('AnyRow', Type.Record(Type.String(), Type.Unknown(), {
  description: 'A row with its columns and the tables embedded by `select`.'
}))
const Removed = named(
  'RemovedRow',
  Type.Object({
    success: Type.Boolean(),
    softDeleted: Type.Optional(Type.Boolean({ description: 'True if the row was marked as deleted; absent if it was removed.' }))
  })
)
const Restored = named('RestoredRow', Type.Object({ success: Type.Boolean(), data: Entity }))

const conflict = errorWith('RowConflictError', 'The state of the row or its table does not allow this.', {
  sql: { type: 'string', description: 'The SQL that adds the columns for marking rows as deleted; present if the table lacks them.' },
  table: { type: 'string', description: 'The table with rows that refer to this row; present if they prevent the deletion.' },
  columns: { type: 'array', items: { type: 'string' }, description: 'The columns of that table that refer to this row.' }
})

const tags = ['Admin']
const toRead = { access: 'tenant-admin', permission: 'entities:read' } as const
const toWrite = { access: 'tenant-admin', permission: 'entities:write' } as const
const rowsDescription =
  'A tenant can access its own rows in tables with a tenant column. A platform administrator can access every table: all rows, or with `X-Tenant-ID` the rows of that tenant.'

export function adminRoutes (app: FastifyGroup, entities: Entities): void {
  const description = withNote(rowsDescription, notReached, app)
  app.get('/admin/entities/:table', {
    config: toRead,
    preValidation: gatherFilters,
    schema: {
      tags,
      summary: 'List rows of a table',
      description,
      params: Tables,
      querystring: Many,
      response: { 200: ListOf(Entity), ...callerErrors() }
    }
  }, async (request, reply) =>
    sendText(reply, await entities.list(callerOf(request), request.params.table, { ...request.query, ...pageOf(request) })))

  app.get('/admin/entities/:table/:id', {
    config: toRead,
    schema: {
      tags,
      summary: 'Retrieve a row',
      description,
      params: Row,
      querystring: One,
      response: { 200: Entity, ...callerErrors() }
    }
  }, async (request, reply) => {
    const { params: { table, id }, query } = request
    return sendText(reply, await entities.one(callerOf(request), table, id, query))
  })

  app.delete('/admin/entities/:table/:id', {
    config: toWrite,
    schema: {
      tags,
      summary: 'Delete a row',
      description:
        `${description} Responds with 409 if the table has no columns for marking rows as deleted, or if rows of another table refer to this row and prevent the deletion.`,
      params: Row,
      querystring: Removal,
      response: { 200: Removed, ...callerErrors(), 409: conflict }
    }
  }, async (request, reply) => {
    const { params: { table, id }, query: { hard, softDelete } } = request
    if (hard !== undefined && hard === softDelete) {
      throw invalidInput('/query/softDelete', '`hard` and `softDelete` contradict each other: send one of them', 'not')
    }
    return sendText(reply, await entities.remove(callerOf(request), table, id, hard === true || softDelete === false))
  })

  app.post('/admin/entities/:table/:id/restore', {
    config: toWrite,
    schema: {
      tags,
      summary: 'Restore a row that was marked as deleted',
      description:
        `${description} Responds with 409 if the row is not marked as deleted, or if another row has the same values of a unique index.`,
      params: Row,
      bodyOptional: true,
      body: EmptyBody,
      response: { 200: Restored, ...callerErrors(), 409: conflict }
    }
  }, async (request, reply) => sendText(reply, await entities.restore(callerOf(request), request.params.table, request.params.id)))
}

/** Throws `tenantRequired` for a caller without a tenant who is not an administrator of the platform. */
function callerOf (request: FastifyRequest): Caller {
  const { auth } = request
  const platform = auth !== null && isPlatformAdmin(auth)
  if (!platform) tenantOf(request)
  return { request, tenant: request.tenant, platform }
}

const filterName = /^filter\[(.*)\]$/s

/** Merges `filter[title]=a&filter[id]=b` into one member `filter`, so that all other parameters are unknown. */
const gatherFilters: preValidationHookHandler = (request, _reply, done) => {
  const others: [string, unknown][] = []
  const filters: [string, unknown][] = []
  for (const [name, value] of Object.entries(Object(request.query))) {
    const column = filterName.exec(name)?.[1]
    if (column !== undefined) filters.push([column, value])
    else if (name === 'filter') return done(invalidInput('/query/filter', 'must name its column: `filter[column]=operator.value`', 'type'))
    // PostgREST's form of filters.
    else if (isFilter(value) && !Object.hasOwn(Many.properties, name)) {
      return done(
        invalidInput(
          pointerTo('/query', name.slice(0, maxShown)),
          'is not a known field: write a filter as `filter[column]=operator.value`',
          'additionalProperties'
        )
      )
    } else others.push([name, value])
  }
  if (filters.length > 0) others.unshift(['filter', Object.fromEntries(filters)])
  request.query = Object.fromEntries(others)
  done()
}
