/** The publishing endpoints and their schemas. */
import type { FastifyInstance } from 'fastify'
import type { Readiness } from './readiness.js'
import type { Publishing } from './service.js'
import { Type, type Static } from 'typebox'
import { notReached, withNote } from '../../lib/firestore/lacking.js'
import { errorResponses } from '../conventions/index.js'
import { errorSchema } from '../../lib/http/error-schemas.js'
import { EmptyBody } from '../../lib/http/schemas.js'
import { named } from '../../lib/validation/named-schema.js'

const maxTables = 100
const maxName = 63 // characters of a name that PostgreSQL keeps
const maxColumns = 1600 // of a table of PostgreSQL

const TableName = Type.String({ minLength: 1, maxLength: maxName, description: 'A table of the application, without its schema.' })

const Init = Type.Object({ checkTables: Type.Array(TableName, { maxItems: maxTables }) }, { additionalProperties: false })

const Initiated = Type.Object({
  ready: Type.Boolean({ description: 'None of them is missing.' }),
  tables: Type.Record(Type.String(), Type.Boolean(), { description: 'Each table and whether the database has it.' }),
  missing: Type.Array(Type.String())
})

const Verified = Type.Object({
  ready: Type.Boolean({ description: 'Every check is passed.' }),
  checks: Type.Array(Type.Object({
    name: Type.String({
      description:
        '`database`; where it answers `migrations`, `tables` (those that the document declares) and `rowLevelSecurity`; and `cache`.'
    }),
    ok: Type.Boolean(),
    message: Type.String({ description: 'What was found, and what to do about it.' })
  }))
})

const Entity = Type.Object({
  table: TableName,
  data: Type.Record(Type.String(), Type.Unknown(), {
    maxProperties: maxColumns,
    description: 'The record: a value for each column. Columns that it leaves out take their default.'
  })
}, { additionalProperties: false })

const Published = Type.Object({
  success: Type.Boolean(),
  table: Type.String(),
  data: Type.Record(Type.String(), Type.Unknown(), { description: 'The record as it was written.' })
})

const sql = {
  type: 'string',
  description: 'SQL that would add what is missing, for you to look through and run. Absent where none is proposed.'
}
const { $id: _, ...error } = errorSchema
const missingTable = named('MissingTableError', {
  ...error,
  description: 'There is no such table.',
  properties: { ...error.properties, table: { type: 'string' }, sql }
})
const missingColumns = named('MissingColumnsError', {
  ...error,
  description: 'The body is not valid, or the table lacks columns.',
  properties: {
    ...error.properties,
    table: { type: 'string' },
    unknown: {
      type: 'array',
      items: { type: 'string' },
      description: 'Columns that neither the table nor its declaration has, at most 100 of them.'
    },
    missing: { type: 'array', items: { type: 'string' }, description: 'Columns that the table lacks, and that `sql` adds.' },
    sql
  }
})

const tags = ['Publishing']
const config = { access: 'platform-admin' } as const
const refusals = [401, 403, 429, 500, 503] as const

/** `readiness`, `publishing`: available when the app is ready. */
export function publishRoutes (app: FastifyInstance, readiness: () => Readiness, publishing: () => Publishing): void {
  app.post<{ Body: Static<typeof Init> }>('/publish/init', {
    config,
    schema: {
      tags,
      summary: 'Check which tables exist',
      description: withNote(
        'Asks the database itself. Views are listed too; tables of the server and of other schemas are not.',
        notReached,
        app
      ),
      body: Init,
      response: { 200: Initiated, ...errorResponses(400, ...refusals) }
    }
  }, ({ body: { checkTables } }) => publishing().check(checkTables))

  app.post('/publish/verify', {
    config,
    schema: {
      tags,
      summary: 'Verify that publishing is ready',
      bodyOptional: true,
      body: EmptyBody,
      response: { 200: Verified, ...errorResponses(400, ...refusals) }
    }
  }, () => readiness().verify())

  app.post<{ Body: Static<typeof Entity> }>('/publish/entity', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Publish a record',
      description: withNote(
        'Of a table that has a tenant, `X-Tenant-ID` names whose record it is. If the table lacks columns, the answer has the SQL that would add them, and nothing is written.',
        notReached,
        app
      ),
      body: Entity,
      response: { 201: Published, ...errorResponses(...refusals, 409), 400: missingColumns, 404: missingTable }
    }
  }, async (request, reply) => {
    const { body: { table, data }, auth, ip, tenant, idempotency } = request
    const text = await publishing().entity({ auth, ip, tenant, idempotency }, table, data)
    reply.code(201).header('content-type', 'application/json; charset=utf-8')
    return text
  })
}
