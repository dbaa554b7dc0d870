/** The reader of changes and the bus of rooms: idle without watches and members, and fair to tenants. */
import { type KyselyPlugin, sql } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createPostgresBus } from '../../../plugins/realtime/postgres-bus.js'
import { createReader } from '../../../plugins/realtime/reader.js'
import { createRecordedStore } from '../../../plugins/realtime/recorded-store.js'
import { type ChangeStore, createChangeStore } from '../../../plugins/realtime/store.js'
import type { Client, Outlet, Watch } from '../../../plugins/realtime/types.js'
import { gate } from '../../helpers/gate.js'
import { postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { keepAlive, open } from './app.js'

interface Sent {
  readonly tenant: string
  readonly text: string
}

/** A watch of tasks whose client records its messages. */
function watchOf (id: string, tenant: string, sent: Sent[]): Watch {
  const outlet: Outlet = {
    send: (text) => {
      sent.push({ tenant, text })
    },
    isBehind: false,
    drained: async () => {},
    close: () => {},
    bytes: 0
  }
  const client: Client = {
    id,
    outlet,
    identity: { claims: { sub: 'bob' }, tenant: tenantRef(tenant), createdAt: new Date(0), verify: () => ({ sub: 'bob' }), count: async () => {} },
    isClosed: false,
    watches: new Map(),
    opening: 0,
    lastWatch: 0,
    rooms: new Set()
  }
  return {
    id,
    client,
    tenant: tenantRef(tenant),
    table: 'tasks',
    conditions: [],
    permissions: [],
    recording: { start: 0, end: () => {} },
    isAllowed: true,
    isLive: true,
    isClosed: false
  }
}

async function readers (t: Test) {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const tasks = app.engine.catalogue.tables.get('tasks')
  if (tasks === undefined) throw new Error('there are no tasks')
  const store = createChangeStore(app.engine)
  const record = (tenants: readonly string[]) => createRecordedStore(app.db).enter(tenants.map((tenant) => ({ tenant: tenantRef(tenant), table: 'tasks' })), 600)
  await record(['acme', 'globex'])
  return {
    app,
    store,
    record,
    reader (own: ChangeStore) {
      const table = { table: tasks, excluded: new Set<string>(), actions: null }
      const reader = createReader({ store: own, tableOf: () => table, lost: () => {}, log: app.log })
      reader.start()
      t.teardown(() => reader.stop())
      return reader
    },
    write: (tenant: string, count: number) =>
      sql`insert into tasks (tenant_id, number, title) select ${tenant}, coalesce((select max(number) from tasks), 0) + n, 'x' from generate_series(1, ${count}::int) n`
        .execute(app.db)
  }
}

/** Counts its polls. */
function counted (store: ChangeStore) {
  const count = { looks: 0 }
  return {
    count,
    store: {
      ...store,
      async news (stamp: number) {
        count.looks++
        return await store.news(stamp)
      }
    }
  }
}

test('a reader polls for changes from its first watch to its last', async (t) => {
  const { store, reader, write } = await readers(t)
  const [never, ended, live] = [counted(store), counted(store), counted(store)]
  reader(never.store)
  const second = reader(ended.store)
  const third = reader(live.store)
  const sent: Sent[] = []
  const [first, other] = [watchOf('1', 'acme', sent), watchOf('2', 'acme', sent)]
  await second.open(first, () => {})
  await until('it looks', () => ended.count.looks > 3)
  second.close(first)
  await third.open(other, () => {})
  // Running polls have ended when the other reader has polled as often again.
  const since = live.count.looks
  await until('the other reader looks', () => live.count.looks > since + 3)
  const [looks, begin] = [ended.count.looks, live.count.looks]
  await until('the other reader continues', () => live.count.looks > begin + 20)
  t.equal(ended.count.looks, looks, 'no poll after the last watch')
  t.equal(never.count.looks, 0, 'no poll without a watch')
  await write('acme', 1)
  await until('the change', () => sent.length === 1)
  const again = watchOf('3', 'acme', [])
  let at = 0
  await second.open(again, ({ position }) => {
    at = position
  })
  t.equal(at, 1, 'a reader that paused starts after earlier commits')
})

test('unread changes wait without positions, and the first watch starts after them', async (t) => {
  const { app, store, reader, write } = await readers(t)
  await write('acme', 4500)
  await write('globex', 3)
  const third = reader(store)
  const sent: Sent[] = []
  const positions: number[] = []
  await third.open(watchOf('1', 'globex', sent), ({ position }) => {
    positions.push(position)
  })
  await third.open(watchOf('2', 'acme', sent), ({ position }) => {
    positions.push(position)
  })
  t.same(positions, [3, 4500])
  await write('acme', 1)
  await until('the change', () => sent.length > 0)
  t.match(JSON.parse(sent[0]?.text ?? ''), { position: 4501 })
  t.equal((await sql`select from tenantry.realtime_outbox`.execute(app.db)).rows.length, 0)
})

/** A store whose news wait while the gate is closed. */
function gateOf (store: ChangeStore) {
  let opened: Promise<void> | null = null
  return {
    store: {
      ...store,
      async news (stamp: number) {
        await opened
        return await store.news(stamp)
      }
    },
    /** Returns the function that opens it. */
    close (): () => void {
      let open = () => {}
      opened = new Promise((resolve) => {
        open = resolve
      })
      return () => open()
    }
  }
}

test('tenants take turns with their changes', async (t) => {
  const { store, reader, write } = await readers(t)
  const gate = gateOf(store)
  const own = reader(gate.store)
  const sent: Sent[] = []
  await own.open(watchOf('1', 'acme', sent), () => {})
  await own.open(watchOf('2', 'globex', sent), () => {})
  const release = gate.close()
  for (const [tenant, count] of [['acme', 3000], ['globex', 1]] as const) {
    await write(tenant, count)
    while ((await store.assignPositions('')).count > 0);
  }
  release()
  await until('all changes', () => sent.length === 3001)
  const turn = sent.findIndex(({ tenant }) => tenant === 'globex')
  t.ok(turn <= 500, `the other tenant came after ${turn} changes, which is at most one batch`)
})

test('a tenant with many watches does not delay the changes of another tenant', async (t) => {
  const { store, reader, write } = await readers(t)
  const gate = gateOf(store)
  const own = reader(gate.store)
  const sent: Sent[] = []
  await Promise.all(Array.from({ length: 2000 }, (_, index) => own.open(watchOf(String(index), 'acme', sent), () => {})))
  await own.open(watchOf('other', 'globex', sent), () => {})
  const release = gate.close()
  for (const [tenant, count] of [['acme', 100], ['globex', 1]] as const) {
    await write(tenant, count)
    while ((await store.assignPositions('')).count > 0);
  }
  release()
  await until('all changes', () => sent.length === 200_001)
  const turn = sent.findIndex(({ tenant }) => tenant === 'globex')
  t.ok(turn < 100_000, `${turn} messages were sent before`)
  const ofOne = sent.filter(({ text }) => text.includes('"watch":"77"')).map(({ text }) => JSON.parse(text).position)
  t.same(ofOne, Array.from({ length: 100 }, (_, index) => index + 1), 'each watch gets each change once, in order')
})

test('a batch of positions starts after the last tenant of the previous one', async (t) => {
  const { app, store, record } = await readers(t)
  const ids = Array.from({ length: 101 }, (_, index) => `t${String(index).padStart(3, '0')}`)
  await sql`insert into tenantry.tenants select (jsonb_populate_record(t, jsonb_build_object('id', made, 'name', made))).* from tenantry.tenants t, unnest(${ids}::text[]) made where t.id = 'acme'`
    .execute(app.db)
  await record(ids)
  const fill = () =>
    sql`insert into tasks (tenant_id, number, title) select made, (select coalesce(max(number), 0) from tasks) + row_number() over (), 'x' from unnest(${ids}::text[]) made`
      .execute(app.db)
  await fill()
  const first = await store.assignPositions('')
  t.match(first, { count: 100, last: 't099', more: true })
  await fill()
  await store.assignPositions(first.last ?? '')
  t.equal((await store.standings(['t100']))[0]?.oldest, null, 'the last tenant had its turn')
  t.type((await store.standings(['t000']))[0]?.oldest, 'number')
})

test('a process polls for room messages from its first member to its last', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const bus = (counter: { statements: number }) => {
    const plugin: KyselyPlugin = {
      transformQuery: ({ node }) => {
        counter.statements++
        return node
      },
      transformResult: async ({ result }) => result
    }
    const heard: string[] = []
    const made = createPostgresBus({
      db: app.db.withPlugin(plugin),
      events: app.events,
      instance: crypto.randomUUID(),
      listener: (tenant, event) => heard.push(`${tenant} ${event.room}`),
      log: app.log
    })
    t.teardown(() => made.close())
    return { bus: made, heard, counter }
  }
  const [never, ended, live] = [bus({ statements: 0 }), bus({ statements: 0 }), bus({ statements: 0 })]
  for (const each of [never, ended, live]) await each.bus.open()
  await keepAlive(app, crypto.randomUUID())
  await Promise.all([ended.bus.hear(), live.bus.hear()])
  live.bus.send(tenantRef('acme'), { kind: 'presence', room: 'first' })
  await until('it is received', () => ended.heard.length === 1)
  t.same(ended.heard, ['acme first'])
  t.same(never.heard, [], 'one without members receives nothing')
  ended.bus.rest()
  never.bus.send(tenantRef('acme'), { kind: 'presence', room: 'second' })
  await until('the other receives it', () => live.heard.includes('acme second'))
  const { statements } = ended.counter
  const begin = live.counter.statements
  await until('the other looks on', () => live.counter.statements > begin + 1)
  t.equal(ended.counter.statements, statements, 'no statement after the last member')
  t.equal(ended.heard.length, 1)
  await ended.bus.hear()
  never.bus.send(tenantRef('acme'), { kind: 'presence', room: 'third' })
  await until('it is received again', () => ended.heard.length === 2)
  t.same(ended.heard, ['acme first', 'acme third'], 'and not the messages in between')
})

test('earlier changes are read in small parts, and the rest of a part is dropped while the client is behind', async (t) => {
  const { app, store, reader } = await readers(t)
  await sql`insert into tasks (tenant_id, number, title) select 'acme', n, repeat('x', 250000) from generate_series(1, 16) n`.execute(app.db)
  while ((await store.assignPositions('')).count > 0);
  const reads: { readonly after: number, readonly bytes: number }[] = []
  const own = reader({
    ...store,
    async read (tenant, table, after, head) {
      const batch = await store.read(tenant, table, after, head)
      reads.push({ after, bytes: batch.changes.reduce((sum, { record }) => sum + record.length, 0) })
      return batch
    }
  })
  const sent: Sent[] = []
  const watch = watchOf('1', 'acme', sent)
  const slow = gate()
  const outlet: Outlet = {
    ...watch.client.outlet,
    get isBehind () {
      return sent.length % 2 === 1
    },
    drained: () => slow.opened
  }
  const behind = { ...watch, client: { ...watch.client, outlet }, isLive: false }
  await own.open(behind, () => {})
  const replayed = own.replay(behind, 0)
  await until('one is sent', () => sent.length === 1)
  slow.open()
  await replayed
  t.same(sent.map(({ text }) => JSON.parse(text).position), Array.from({ length: 16 }, (_, index) => index + 1), 'each once, in order')
  t.ok(reads.every(({ bytes }) => bytes < 800_000), `reads of ${Math.max(...reads.map(({ bytes }) => bytes))} bytes`)
  t.match(reads.slice(0, 2), [{ after: 0 }, { after: 1 }], 'the rest of a read is dropped')
  t.ok(behind.isLive)
})
