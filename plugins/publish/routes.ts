/** The publishing endpoints and their schemas. */
import { Type } from 'typebox'
import { notReached, withNote } from '../../lib/firestore/unsupported.js'
import { errorWith } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody } from '../../lib/http/schemas.js'
import { sendText } from '../../lib/http/send-text.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { errorResponses } from '../conventions/index.js'
import type { Readiness } from './readiness.js'
import type { Publishing } from './service.js'

const maxTables = 100
const maxName = 63 // characters of a name that PostgreSQL keeps
const maxColumns = 1600 // of a table of PostgreSQL

const TableName = Type.String(
  { minLength: 1, maxLength: maxName, description: 'The name of a table of the application, without its schema.' }
)

const Init = ClosedObject({ checkTables: Type.Array(TableName, { maxItems: maxTables }) })

const Initiated = Type.Object({
  ready: Type.Boolean({ description: 'True if no table is missing.' }),
  tables: Type.Record(Type.String(), Type.Boolean(), { description: 'The tables by name. The value is true if the table exists.' }),
  missing: Type.Array(Type.String())
})

const Verified = Type.Object({
  ready: Type.Boolean({ description: 'True if all checks passed.' }),
  checks: Type.Array(Type.Object({
    name: Type.String({
      description:
        'The name of the check: `database`; if the database responds, `migrations`, `tables` (the tables that the document declares) and `rowLevelSecurity`; and `cache`.'
    }),
    ok: Type.Boolean(),
    message: Type.String({ description: 'The result of the check, and what to do if it failed.' })
  }))
})

const Entity = ClosedObject({
  table: TableName,
  data: Type.Record(Type.String(), Type.Unknown(), {
    maxProperties: maxColumns,
    description: 'The record with a value for each column. Omitted columns have their default.'
  })
})

const Published = Type.Object({
  success: Type.Boolean(),
  table: Type.String(),
  data: Type.Record(Type.String(), Type.Unknown(), { description: 'The saved record.' })
})

const sql = {
  type: 'string',
  description: 'The SQL that would add the missing table or columns. Review it before you run it. Absent if there is no proposal.'
}
const missingTable = errorWith('MissingTableError', 'The table does not exist.', { table: { type: 'string' }, sql })
const missingColumns = errorWith('MissingColumnsError', 'The body is invalid, or the table lacks columns.', {
  table: { type: 'string' },
  unknown: {
    type: 'array',
    items: { type: 'string' },
    description: 'The columns that exist neither in the table nor in its declaration, at most 100.'
  },
  missing: { type: 'array', items: { type: 'string' }, description: 'The columns that the table lacks and `sql` adds.' },
  sql
})

const tags = ['Publishing']
const config = { access: 'platform-admin' } as const
const refusals = [401, 403, 429, 500, 503] as const

export function publishRoutes (app: FastifyGroup, readiness: Readiness, publishing: Publishing): void {
  app.post('/publish/init', {
    config,
    schema: {
      tags,
      summary: 'Check which tables exist',
      description: withNote(
        'Checks the tables in the database itself. The check includes views, but not tables of the server and of other schemas.',
        notReached,
        app
      ),
      body: Init,
      response: { 200: Initiated, ...errorResponses(400, ...refusals) }
    }
  }, ({ body: { checkTables } }) => publishing.check(checkTables))

  app.post('/publish/verify', {
    config,
    schema: {
      tags,
      summary: 'Verify that publishing is ready',
      bodyOptional: true,
      body: EmptyBody,
      response: { 200: Verified, ...errorResponses(400, ...refusals) }
    }
  }, () => readiness.verify())

  app.post('/publish/entity', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Publish a record',
      description: withNote(
        'If the table belongs to tenants, the record belongs to the tenant in `X-Tenant-ID`. If the table lacks columns, the response has the SQL to add them, and nothing is written.',
        notReached,
        app
      ),
      body: Entity,
      response: { 201: Published, ...errorResponses(...refusals, 409), 400: missingColumns, 404: missingTable }
    }
  }, async (request, reply) => {
    const { body: { table, data }, auth, ip, tenant, idempotency } = request
    const text = await publishing.entity({ auth, ip, tenant, idempotency }, table, data)
    return sendText(reply.code(201), text)
  })
}
