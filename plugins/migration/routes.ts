/** The migration endpoints and their schemas. */
import { Type } from 'typebox'
import type { Engine } from '../../lib/database/engine.js'
import type { MigrationPlan } from '../../lib/database/migrations/migration.js'
import { hasLoneStatements, planSql } from '../../lib/database/migrations/plan.js'
import { failure } from '../../lib/errors.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody } from '../../lib/http/schemas.js'
import { named } from '../../lib/validation/named-schema.js'
import { actorOf } from '../auth/actor.js'
import { errorResponses } from '../conventions/index.js'

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

const quickFixWarning = 'For development only: without row-level security only the server itself separates the rows of tenants.'

const tags = ['Migration']
const config = { access: 'platform-admin' } as const
const refusals = [401, 403, 429, 500, 503] as const

export function migrationRoutes (app: FastifyGroup, migration: Engine['migration'], production: boolean, rules: string | undefined): void {
  app.get('/migration', {
    config,
    schema: { tags, summary: 'Retrieve the missing database changes as SQL', response: { 200: Overview, ...errorResponses(...refusals) } }
  }, async () => {
    const plan = await migration.plan()
    const tables = [...new Set(plan.migrations.flatMap((one) => one.tables))]
    return { sql: planSql(plan), tables, instructions: instructionsOf(plan), ...rules !== undefined && { rules } }
  })

  app.get('/migration/status', {
    config,
    schema: {
      tags,
      summary: 'Check that the database has the tables and columns of the routes',
      response: { 200: Status, ...errorResponses(...refusals) }
    }
  }, async () => {
    const { migrations, tables } = await migration.plan()
    return { ready: !migrations.some(({ required }) => required), tables }
  })

  app.get('/migration/quick-fix', {
    config,
    schema: {
      tags,
      summary: 'Retrieve SQL without row-level security, for development',
      response: { 200: QuickFix, ...errorResponses(...refusals) }
    }
  }, async () => {
    if (production) {
      throw failure('forbidden', {
        message: 'SQL without row-level security is not available in production: use GET /migration'
      })
    }
    return { sql: planSql(await migration.plan({ policies: false })), warning: quickFixWarning }
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
  }, async (request) => ({ success: true, applied: await migration.apply(actorOf(request)) }))
}

function instructionsOf (plan: MigrationPlan): string {
  if (plan.migrations.length === 0) return ['Nothing is missing.', ...notesOf(plan)].join('\n')
  const names = plan.migrations.map(({ name }) => name).join(', ')
  return [
    `To apply ${names}: run "tenantry migrate", send POST /migration/apply, or run the SQL as the owner of the tables with "psql -v ON_ERROR_STOP=1". A statement fails if another session locks its table. "tenantry migrate" and POST /migration/apply retry it; with psql, retrieve the SQL again and run the rest.`,
    ...hasLoneStatements(plan)
      ? [
          'The SQL has statements that cannot run in a transaction, such as "create index concurrently": run it without "--single-transaction".'
        ]
      : [],
    ...notesOf(plan)
  ].join('\n')
}

function notesOf ({ warnings }: MigrationPlan): string[] {
  return warnings.map((warning) => `Note: ${warning}.`)
}
