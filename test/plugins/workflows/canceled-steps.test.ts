/** Steps of runs that are canceled while the notice of it is lost, or while the database is too busy. */
import { once } from 'node:events'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import pg from 'pg'
import { type Test, test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'

const cancelAll = "update tenantry.workflow_runs set status = 'canceled', finished_at = now()"

interface World {
  readonly app: FastifyInstance
  readonly connectionString: string
  readonly log: readonly string[]
  /** The running step was aborted. */
  readonly aborted: Promise<void>
}

/** A server that runs a step, which ends only when it is aborted. */
async function world (t: Test): Promise<World> {
  const { connectionString } = await postgresDatabase(t)
  const [begun, aborted] = [gate(), gate()]
  const log: string[] = []
  const { app, as } = await testApp(t, {
    engine: { provider: 'postgres', postgres: { connectionString, pool: { statementTimeoutMs: 2000 } } },
    plugins: {
      queue: { workers: 1 },
      workflows: {
        // The workflows below, and not those of a configuration.
        config: undefined,
        workflows: [{ id: 'slow', steps: [{ id: 'wait', type: 'llm', prompt: 'x' }] }],
        steps: {
          llm: {
            async run (_members, { signal }) {
              begun.open()
              await once(signal, 'abort')
              aborted.open()
              throw signal.reason
            }
          }
        }
      }
    },
    tenants: ['acme'],
    onLog: (line) => log.push(line)
  })
  const { status } = await as({ sub: 'ada', role: 'user', tenant_id: 'acme' })('POST /agent/workflow/run', { body: { ref: 'slow' } })
  t.equal(status, 202)
  await begun.opened
  return { app, connectionString, log, aborted: aborted.opened }
}

test('a running step of a canceled run is aborted when the notice of it was lost', async (t) => {
  const { app, aborted } = await world(t)
  await sql.raw(cancelAll).execute(app.db)
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'`
    .execute(app.db)
  await aborted
})

test('a running step of a canceled run is aborted when the run could not be read at first', async (t) => {
  const { app, connectionString, log, aborted } = await world(t)
  const session = new pg.Client({ connectionString })
  await session.connect()
  t.teardown(() => session.end())
  await session.query('begin; lock table tenantry.workflow_runs')
  await session.query(cancelAll)
  await app.events.change({ topic: 'workflows', tenant: tenantRef('acme') }, async () => {})
  await until('the run cannot be read', () => log.some((line) => line.includes('canceled runs of workflows could not be read')))
  await session.query('commit')
  await aborted
})
