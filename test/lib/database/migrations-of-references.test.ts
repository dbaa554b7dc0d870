import { test } from 'tap'
import { forEachEngine, postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { authors, notes, tables } from './authors-and-notes.js'
import { openEngine, run, withoutTenant } from './open.js'

test('two references of a table with a long name have different names', (t) =>
  forEachEngine(t, async (t, database) => {
    const name = 'customer_organization_membership_invitation_reminder_schedules'
    const reference = { type: 'uuid', references: 'authors.id' } as const
    const columns = { id: { type: 'uuid', primaryKey: true }, sent_by: reference, received_by: reference } as const
    const engine = await openEngine(t, { ...database, tables: { authors, [name]: { columns, tenantScoped: true } }, migrate: 'auto' })
    const keys = engine.catalogue.tables.get(name)?.foreignKeys.map(({ columns }) => columns.at(-1))
    t.strictSame(keys?.sort(), ['received_by', 'sent_by'])
    t.strictSame(await engine.pendingMigrations(), [])
  }, { empty: true }))

test('references and unique keys of tenant tables are per tenant', (t) =>
  forEachEngine(t, async (t, database) => {
    const engine = await openEngine(t, { ...database, tables, migrate: 'auto' })
    const write = (text: string, values: unknown[]) => engine.text({ text }, values, withoutTenant)
    const author = 'insert into authors (email, tenant_id) values ($1, $2) returning id::text'
    const ofA = await write(author, ['x@y', 'a'])
    await write(author, ['x@y', 'b'])
    await t.rejects(write(author, ['x@y', 'a']), { code: 'TENANTRY_CONFLICT', extras: { details: [{ path: '/email' }] } })
    const note = 'insert into notes (id, author_id, tenant_id) values ($1, $2, $3)'
    await write(note, [1, ofA, 'a'])
    await t.rejects(write(note, [2, ofA, 'b']), { code: 'TENANTRY_CONSTRAINT_VIOLATED', extras: { details: [{ path: '/author_id' }] } })
    await write(note, [2, null, 'b'])
  }, { empty: true }))

test('two tenants can use the same id, also in tables with references', (t) =>
  forEachEngine(t, async (t, database) => {
    const engine = await openEngine(t, { ...database, tables, migrate: 'auto' })
    const note = (id: number, parent: number | null, tenant: string) =>
      engine.text({ text: 'insert into notes (id, parent_id, tenant_id, title) values ($1, $2, $3, gen_random_uuid()) returning null' }, [
        id,
        parent,
        tenant
      ], withoutTenant)
    await note(1, null, 'a')
    await note(1, null, 'b')
    await t.rejects(note(1, null, 'a'), { code: 'TENANTRY_CONFLICT', extras: { details: [{ path: '/id' }] } })
    await note(2, 1, 'a')
    await t.rejects(note(3, 2, 'b'), { code: 'TENANTRY_CONSTRAINT_VIOLATED' }, 'the note 2 belongs only to a')
    const indexes = await engine.transaction(withoutTenant, (session) =>
      session.rows<{ columns: string }>({
        text:
          "select array_to_string(array(select attname from pg_attribute a, unnest(indkey) with ordinality u(n, place) where attrelid = indrelid and attnum = n order by place), ',') as columns from pg_index where indrelid = 'notes'::regclass order by 1"
      }))
    t.strictSame(
      indexes.map(({ columns }) => columns),
      ['author_id', 'tenant_id,id', 'tenant_id,title,day'],
      "the key is the index of a tenant's list"
    )
  }, { empty: true }))

test('a reference that was replaced by one with `on delete cascade` stays', (t) =>
  forEachEngine(t, async (t, database) => {
    const engine = await openEngine(t, { ...database, tables, migrate: 'auto' })
    const run = (text: string) => engine.text({ text }, [], withoutTenant)
    await run(`alter table notes drop constraint notes_parent_id_fkey,
      add foreign key (tenant_id, parent_id) references notes (tenant_id, id) on delete cascade`)
    t.strictSame(await engine.pendingMigrations(), [])
    await run("insert into notes (id, tenant_id, parent_id, title) values (1, 'a', null, 'one'), (2, 'a', 1, 'two')")
    await run('delete from notes where id = 1')
    t.equal(await run('select count(*)::text from notes'), '0')
  }, { empty: true }))

test('a role that may refer to a table, but not lock it, adds the reference', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  const role = new URL(connectionString).username
  await admin(`create table authors (id int primary key); grant references on authors to ${role}`)
  const id = { type: 'integer', primaryKey: true } as const
  const engine = await openEngine(t, {
    provider: 'postgres',
    migrate: 'auto',
    postgres: { connectionString },
    tables: { authors: { columns: { id } }, notes: { columns: { id, author_id: { type: 'integer', references: 'authors.id' } } } }
  })
  t.match(engine.catalogue.tables.get('notes'), { foreignKeys: [{ referencedTable: 'authors' }] })
})

test('tables that were created without the tenant in their key keep that key', async (t) => {
  const database = await postgresSection(t, { empty: true })
  const engine = await openEngine(t, {
    ...database,
    tables: {
      authors,
      notes: {
        columns: { id: { type: 'bigint', primaryKey: true }, author_id: { type: 'uuid', references: 'authors.id' } },
        tenantScoped: true
      }
    },
    migrate: 'manual'
  })
  await run(
    engine,
    'create table authors (id uuid default gen_random_uuid() not null primary key, email text not null, tenant_id text not null, unique (tenant_id, email), unique (tenant_id, id))',
    'create table notes (id bigint not null primary key, author_id uuid, tenant_id text not null, foreign key (tenant_id, author_id) references authors (tenant_id, id))',
    'create index on notes (tenant_id, id)'
  )
  const { migrations, warnings } = await engine.migration.plan()
  t.strictSame(warnings, [])
  t.match(migrations.filter(({ kind }) => kind === 'tables'), [{ name: /_isolate_/ }], 'except their policies')
  await engine.migration.apply()
  t.match(engine.catalogue.tables.get('notes'), { primaryKey: ['id'] })
  const grown = await openEngine(t, {
    ...database,
    tables: { authors, notes: { ...notes, columns: { ...notes.columns, parent_id: { type: 'bigint', references: 'notes.id' } } } },
    migrate: 'auto'
  })
  t.match(
    grown.catalogue.tables.get('notes')?.uniqueKeys.map(String).sort(),
    ['tenant_id,id', 'tenant_id,title,day'],
    'a later reference includes the tenant there too'
  )
})
