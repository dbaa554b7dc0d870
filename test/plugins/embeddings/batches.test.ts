/** The statements of batches. */
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { createBatches } from '../../../plugins/embeddings/batches.js'
import { postgresSection } from '../../helpers/postgres.js'
import { rowsRead } from '../../helpers/rows-read.js'
import { testServer } from '../../helpers/server.js'

test('completed batches add no cost to new ones, nor to the sweep', async (t) => {
  const app = await testServer(t, {}, { engine: await postgresSection(t, { role: 'owner' }), tenants: ['acme'] })
  await sql`insert into tenantry.agent_batches (tenant_id, id, status, total, actor, created_at, finished_at)
    select 'acme', gen_random_uuid(), 'completed', 1, '{}', now(), now() from generate_series(1, 15000)`.execute(app.db)
  await sql`vacuum analyze tenantry.agent_batches`.execute(app.db)
  const rows = await rowsRead(app.db, async (db) => {
    const batches = createBatches({
      db,
      dbFor: () => db,
      queue: { send: async () => null },
      service: { putWith: async () => { throw new Error('not called') } },
      now: Date.now
    })
    const document = { document: 'a', contentType: 'text/plain', metadata: {} } as const
    t.match(await batches.add(tenantIdOf('acme'), [document], noActor, null), { total: 1 })
    await batches.sweep()
  })
  t.ok(rows < 100, `${rows} rows`)
})
