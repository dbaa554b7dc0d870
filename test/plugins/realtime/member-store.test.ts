/** The statements of rooms' members. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { createMemberStore } from '../../../plugins/realtime/member-store.js'
import { postgresSection } from '../../helpers/postgres.js'
import { rowsRead } from '../../helpers/rows-read.js'
import { testServer } from '../../helpers/server.js'

test('the cost of a member does not grow with the members of other rooms', async (t) => {
  const app = await testServer(t, {}, { engine: await postgresSection(t, { role: 'owner' }), tenants: ['acme'] })
  const [instance, dead] = [randomUUID(), randomUUID()]
  await sql`insert into tenantry.realtime_instances (id, seen_at) values (${instance}::uuid, now())`.execute(app.db)
  await sql`insert into tenantry.realtime_members (tenant_id, room, id, instance_id)
    select 'acme', 'room-' || n % 50, gen_random_uuid(), case n when 1 then ${dead} else ${instance} end::uuid
    from generate_series(1, 15000) n`.execute(app.db)
  await sql`vacuum analyze tenantry.realtime_members`.execute(app.db)
  const member = { tenant: tenantIdOf('acme'), id: randomUUID(), state: null }
  const costOf = (work: (store: ReturnType<typeof createMemberStore>) => Promise<unknown>) =>
    rowsRead(app.db, (db) => work(createMemberStore(db, () => db, instance)))
  const join = await costOf(async (store) => {
    t.match(await store.join({ ...member, room: 'room-1' }, 1000, () => 50), { kind: 'joined' })
    t.match(await store.join({ ...member, room: 'another' }, 1000, () => 50), { kind: 'full', needed: 51 })
    t.match(await store.join({ ...member, room: 'another' }, 1000, () => 51), { kind: 'joined' })
  })
  t.ok(join < 1500, `${join} rows of a join`)
  const heartbeat = await costOf(async (store) => {
    t.strictSame(await store.removeDead(), [{ tenant: 'acme', room: 'room-1' }])
  })
  t.ok(heartbeat < 100, `${heartbeat} rows of a heartbeat`)
})
