/** The statements of users. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { createUserStore } from '../../../plugins/users/store.js'
import { postgresSection } from '../../helpers/postgres.js'
import { rowsRead } from '../../helpers/rows-read.js'
import { testServer } from '../../helpers/server.js'

test('disabled users and administrators are found among many users', async (t) => {
  const app = await testServer(t, {}, { engine: await postgresSection(t, { role: 'owner' }), tenants: ['acme'] })
  await sql`insert into tenantry.users (tenant_id, id, email, password_hash, role, status)
    select 'acme', gen_random_uuid(), 'user' || n || '@example.com', '$argon2id$', case n % 7500 when 1 then 'admin' else 'user' end,
      case n % 7500 when 0 then 'disabled' else 'active' end from generate_series(1, 15000) n`.execute(app.db)
  await sql`vacuum analyze tenantry.users`.execute(app.db)
  const tenant = tenantIdOf('acme')
  const rows = await rowsRead(app.db, async (db) => {
    const store = createUserStore(() => db)
    t.match(await store.list(tenant, { status: 'disabled' }, { limit: 20, offset: 0 }), { data: { length: 2 }, total: 2 })
    t.equal(await store.transaction(tenant, (writer) => store.hasOtherAdministrator(writer, { tenant, id: randomUUID() })), true)
  })
  t.ok(rows < 100, `${rows} rows`)
})
