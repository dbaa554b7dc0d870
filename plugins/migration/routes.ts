/** The migration endpoints and their schemas. */
import { Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody } from '../../lib/http/schemas.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf } from '../auth/actor.js'
import { errorResponses } from '../conventions/index.js'
import type { MigrationService } from './service.js'

const Sql = Type.String({
  description:
    'SQL for psql that applies the missing migrations and records them. Statements outside `begin` and `commit` cannot run in a transaction. Empty if nothing is missing.'
})

const Overview = Type.Object({
  sql: Sql,
  tables: Type.Array(Type.String(), {
    description: "The names of the tables that the SQL creates or changes. Names of the server's own tables include their schema."
  }),
  instructions: Type.String({ description: 'How to apply the SQL, and notes on declarations that it does not change.' }),
  rules: Type.Optional(
    Type.String({ description: 'Security rules for programs that access Firestore directly; present only if the document uses Firestore.' })
  )
})

const Status = named(
  'MigrationStatus',
  Type.Object({
    ready: Type.Boolean({ description: 'True if the database has everything that the routes need.' }),
    tables: Type.Record(Type.String(), Type.Boolean(), {
      description: 'The tables that the server and the document need. The value is true if the table exists.'
    })
  })
)

const QuickFix = Type.Object({
  sql: Sql,
  warning: Type.String({ description: 'A warning about running without row-level security.' })
})

const Applied = named(
  'AppliedMigrations',
  Type.Object({
    success: Type.Boolean(),
    applied: Type.Array(Type.String(), {
      description: 'The names of the applied migrations, in order; empty if nothing was missing.'
    })
  })
)

const tags = ['Migration']
const config = { access: 'platform-admin' } as const
const refusals = [401, 403, 429, 500, 503] as const

export function migrationRoutes (app: FastifyGroup, service: MigrationService, production: boolean): void {
  app.get('/migration', {
    config,
    schema: { tags, summary: 'Retrieve the missing database changes as SQL', response: { 200: Overview, ...errorResponses(...refusals) } }
  }, () => service.overview())

  app.get('/migration/status', {
    config,
    schema: {
      tags,
      summary: 'Check that the database has the tables and columns of the routes',
      response: { 200: Status, ...errorResponses(...refusals) }
    }
  }, () => service.status())

  app.get('/migration/quick-fix', {
    config,
    schema: {
      tags,
      summary: 'Retrieve SQL without row-level security, for development',
      response: { 200: QuickFix, ...errorResponses(...refusals) }
    }
  }, () => {
    if (production) {
      throw failure('forbidden', {
        message: 'SQL without row-level security is not available in production: use GET /migration'
      })
    }
    return service.quickFix()
  })

  app.post('/migration/apply', {
    config,
    schema: {
      tags,
      summary: 'Apply the missing database changes',
      bodyOptional: true,
      body: EmptyBody,
      response: { 200: Applied, ...errorResponses(400, ...refusals, 409) }
    }
  }, async (request) => ({ success: true, applied: await service.apply(actorOf(request)) }))
}
