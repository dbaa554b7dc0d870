/** Writes that announce their rows: one event per row, in the same statement. */
import { webhooks } from '../../../lib/database/migrations/system/webhooks.js'
import { maxEventBytes } from '../../../lib/database/outbox.js'
import type { Scope } from '../../../lib/expressions/types.js'
import type { Query } from '../../../lib/schema/query.js'
import { type Library, onEachEngine, refusalOf, uuid } from './database.js'

const [events = ''] = webhooks.statements({ policies: false })
const setUp = `
${events.replace('create table', 'create table if not exists')};
truncate tenantry.webhook_events cascade;
drop table if exists parts;
create table parts (tenant_id text not null, n integer not null, made text, primary key (tenant_id, n)) partition by range (n);
create table parts_low partition of parts for values from (0) to (100);
insert into authors (id, tenant_id, name, email) values ('${uuid(1)}', 'a', 'Ada', 'ada@example.com'), ('${uuid(9)}', 'b', 'Eve', null);
insert into articles (id, tenant_id, title, status, author_id, slug) values ('${uuid(11)}', 'a', 'Alpha', 'draft', '${
  uuid(1)
}', 'alpha'), ('${uuid(12)}', 'a', 'Beta', 'draft', null, null), ('${uuid(19)}', 'b', 'Other', 'draft', '${uuid(9)}', 'other');
insert into labels values (1, 'a', 'red');
`

const heard = { events: true }

/** The events since the last call. */
async function newEvents (library: Library): Promise<object[]> {
  const rows = await library.sql('select tenant_id, type, subject, data from tenantry.webhook_events order by place')
  await library.sql('delete from tenantry.webhook_events')
  return rows.map(({ tenant_id: tenant, type, subject, data }) => ({ tenant, type, subject, data }))
}

function event (kind: string, table: string, id: unknown, record: object, subject = `${table}:${String(id)}`) {
  return { tenant: 'a', type: `entity.${kind}`, subject, data: { table, id, record } }
}

onEachEngine(setUp, {
  'each written row has an event with its columns, and the response stays the same': async (t, library) => {
    const insert: Query = { table: 'labels', operation: 'insert', select: 'name' }
    t.strictSame(await library.run(insert, { body: { id: 2, name: 'blue' } }), { name: 'blue' })
    t.strictSame(await newEvents(library), [], 'no event without listeners')
    t.strictSame(await library.run(insert, { ...heard, body: { id: 3, name: 'green' } }), { name: 'green' })
    t.strictSame(await newEvents(library), [event('created', 'labels', 3, { id: 3, tenant_id: 'a', name: 'green' })])
    t.strictSame(await library.run(insert, { ...heard, body: [{ id: 4, name: 'x' }, { id: 5, name: 'y' }] }), {
      data: [{ name: 'x' }, { name: 'y' }]
    })
    t.match(await newEvents(library), [event('created', 'labels', 4, { name: 'x' }), event('created', 'labels', 5, { name: 'y' })])
    t.strictSame(
      await library.run({ table: 'articles', operation: 'insert', select: 'title, authors(name)' }, {
        ...heard,
        body: [{ title: 'One', views: 7, author_id: uuid(1) }, { title: 'Two' }]
      }),
      { data: [{ title: 'One', authors: { name: 'Ada' } }, { title: 'Two', authors: null }] }
    )
    t.match(await newEvents(library), [{
      type: 'entity.created',
      data: { record: { title: 'One', views: 7, status: 'draft', title_length: 3 } }
    }, { type: 'entity.created', data: { record: { title: 'Two', views: 0 } } }])
    t.strictSame(
      await library.run({ table: 'articles', operation: 'update', filters: [{ column: 'status', value: 'draft' }], select: 'title' }, {
        ...heard,
        body: { views: 1 }
      }),
      { data: [{ title: 'Alpha' }, { title: 'Beta' }, { title: 'One' }, { title: 'Two' }] }
    )
    t.strictSame((await newEvents(library)).length, 4)
    t.match(
      await library.run({ table: 'articles', operation: 'update', id: '{{params.id}}' }, {
        ...heard,
        params: { id: uuid(11) },
        body: { title: 'New' }
      }),
      { title: 'New' }
    )
    t.match(await newEvents(library), [event('updated', 'articles', uuid(11), { id: uuid(11), title: 'New', title_length: 3 })])
    t.match(
      await library.run({ table: 'articles', operation: 'update', id: '{{params.id}}' }, { ...heard, params: { id: uuid(11) }, body: {} }),
      { title: 'New' }
    )
    t.strictSame(await newEvents(library), [], 'nothing changed')
  },

  'an upsert of records with different fields has an event for each row, in order': async (t, library) => {
    const body = [{ id: uuid(11), title: 'A' }, { id: uuid(13), title: 'C', views: 3 }, { id: uuid(12), title: 'B', views: 2 }, {
      id: uuid(15),
      title: 'D'
    }]
    await library.run({ table: 'articles', operation: 'upsert' }, { ...heard, body })
    t.match(await newEvents(library), [
      event('updated', 'articles', uuid(11), { title: 'A', slug: 'alpha' }),
      event('created', 'articles', uuid(13), { title: 'C', views: 3 }),
      event('updated', 'articles', uuid(12), { title: 'B', views: 2 }),
      event('created', 'articles', uuid(15), { title: 'D', views: 0 })
    ])
    await library.engine.refresh()
    await library.run({ table: 'parts', operation: 'upsert' }, { ...heard, body: [{ n: 1, made: 'x' }, { n: 2 }] })
    await newEvents(library)
    t.strictSame(
      await library.run({ table: 'parts', operation: 'upsert' }, { ...heard, body: [{ n: 3 }, { n: 1 }, { n: 2, made: 'y' }] }),
      {
        data: [{ tenant_id: 'a', n: 3, made: null }, { tenant_id: 'a', n: 1, made: 'x' }, { tenant_id: 'a', n: 2, made: 'y' }]
      }
    )
    t.match(await newEvents(library), [
      event('created', 'parts', 3, { n: 3 }),
      event('updated', 'parts', 1, { made: 'x' }),
      event('updated', 'parts', 2, { made: 'y' })
    ])
  },

  'events of deletions contain the deleted rows, soft or hard': async (t, library) => {
    const softDelete = { enabled: true, allowHardDelete: true }
    const remove: Query = { table: 'articles', operation: 'delete', id: '{{params.id}}' }
    t.strictSame(await library.run(remove, { ...heard, params: { id: uuid(11) } }, { softDelete }), { success: true, softDeleted: true })
    t.match(await newEvents(library), [event('deleted', 'articles', uuid(11), { title: 'Alpha', deleted: true })])
    t.equal(await library.run(remove, { ...heard, params: { id: uuid(11) } }, { softDelete }), null, 'it is already deleted')
    t.equal(await library.run(remove, { ...heard, params: { id: uuid(19) } }, { softDelete }), null, "another tenant's row")
    t.strictSame(await newEvents(library), [])
    t.strictSame(await library.run(remove, { ...heard, params: { id: uuid(12) }, query: { hard: 'true' } }, { softDelete }), {
      success: true
    })
    t.match(await newEvents(library), [event('deleted', 'articles', uuid(12), { title: 'Beta', deleted: false })])
    t.strictSame(
      await library.run({ table: 'labels', operation: 'delete', filters: [{ column: 'id', operator: 'gt', value: 0 }] }, heard),
      { success: true }
    )
    t.match(await newEvents(library), [event('deleted', 'labels', 1, { name: 'red' })])
  },

  "an upsert's event says whether the row is new": async (t, library) => {
    const upsert: Query = { table: 'articles', operation: 'upsert', onConflict: ['slug'], select: 'title' }
    t.strictSame(await library.run(upsert, { ...heard, body: { slug: 'new', title: 'New' } }), { title: 'New' })
    t.match(await newEvents(library), [{ type: 'entity.created', data: { record: { slug: 'new' } } }])
    t.strictSame(await library.run(upsert, { ...heard, body: [{ slug: 'new', title: 'Newer' }, { slug: 'newest', title: 'Newest' }] }), {
      data: [{ title: 'Newer' }, { title: 'Newest' }]
    })
    t.match(await newEvents(library), [{ type: 'entity.updated', data: { record: { slug: 'new' } } }, {
      type: 'entity.created',
      data: { record: { slug: 'newest' } }
    }])
    t.notMatch(JSON.stringify(await library.run({ ...upsert, select: '*' }, { ...heard, body: { slug: 'new', title: 'x' } })), /made/)
    await newEvents(library)
    await library.engine.refresh()
    const part: Query = { table: 'parts', operation: 'upsert' }
    t.strictSame(await library.run(part, { ...heard, body: { n: 1, made: 'x' } }), { tenant_id: 'a', n: 1, made: 'x' })
    t.strictSame(await library.run(part, { ...heard, body: { n: 1, made: 'y' } }), { tenant_id: 'a', n: 1, made: 'y' })
    t.match(await newEvents(library), [event('created', 'parts', 1, { made: 'x' }), event('updated', 'parts', 1, { made: 'y' })])
  },

  'keys of several columns, missing keys, and names that need quotes work': async (t, library) => {
    await library.run({ table: 'seats', operation: 'insert' }, { ...heard, body: { venue: 'hall', number: 7 } })
    t.strictSame(await newEvents(library), [{
      ...event('created', 'seats', { venue: 'hall', number: 7 }, { venue: 'hall', number: 7, holder: null }, 'seats:hall,7'),
      tenant: ''
    }], 'a row without a tenant belongs to the platform')
    await library.run({ table: 'we"ird', operation: 'insert' }, { ...heard, body: { id: 1, 'na"me': 'x' } })
    t.match(await newEvents(library), [{ subject: 'we"ird:1', data: { table: 'we"ird', record: { 'na"me': 'x', select: null } } }])
  },

  'events contain no values from secrets, and no record that is too large': async (t, library) => {
    const withheld = { columns: new Map([['labels', new Set(['name'])]]), fields: new Map([['notes', new Set(['token'])]]) }
    await library.run({ table: 'labels', operation: 'insert' }, { ...heard, body: { id: 6, name: 'secret' } }, { withheld })
    t.strictSame(await newEvents(library), [event('created', 'labels', 6, { id: 6, tenant_id: 'a' })])
    await library.run({ table: 'labels', operation: 'upsert', id: 7 }, { ...heard, body: { name: 'secret' } }, {
      withheld: { ...withheld, columns: new Map([['labels', new Set(['id'])]]) }
    })
    t.strictSame(await newEvents(library), [event('created', 'labels', null, { tenant_id: 'a', name: 'secret' }, 'labels')], 'nor a withheld key')
    await library.runDocument(
      { collection: 'notes', operation: 'create', docId: '1' },
      { ...heard, body: { token: 'secret', text: 'x' } },
      { withheld }
    )
    t.strictSame(await newEvents(library), [event('created', 'notes', '1', { id: '1', text: 'x' })])
    await library.run({ table: 'labels', operation: 'insert' }, { ...heard, body: { id: 8, name: 'x'.repeat(maxEventBytes) } })
    t.strictSame(await newEvents(library), [{
      tenant: 'a',
      type: 'entity.created',
      subject: 'labels:8',
      data: { table: 'labels', id: 8, record: null, truncated: true }
    }])
  },

  'a failed statement has no event': async (t, library) => {
    const insert: Query = { table: 'articles', operation: 'insert' }
    for (
      const body of [{ title: 'x', slug: 'alpha' }, { title: 'x', author_id: uuid(9) }, { title: 'x', rating: 9 }, [{ title: 'fine' }, {
        title: 'x',
        author_id: uuid(9)
      }]]
    ) {
      t.match(await refusalOf(library.run(insert, { ...heard, body })), { status: /400|409/ })
    }
    t.match(
      await refusalOf(library.run({ table: 'articles', operation: 'update', id: uuid(11) }, { ...heard, body: { author_id: uuid(9) } })),
      { status: 400 }
    )
    t.equal(await library.run({ table: 'articles', operation: 'upsert' }, { ...heard, body: { id: uuid(19), title: 'x' } }), null)
    t.strictSame(await newEvents(library), [])
  },

  'documents have events too': async (t, library) => {
    const scope = (more: Partial<Scope>): Partial<Scope> => ({ ...heard, params: { id: 'n1' }, ...more })
    const id = '{{params.id}}'
    t.strictSame(await library.runDocument({ collection: 'notes', operation: 'set', docId: id }, scope({ body: { text: 'x' } })), {
      id: 'n1',
      text: 'x'
    })
    t.strictSame(await library.runDocument({ collection: 'notes', operation: 'set', docId: id }, scope({ body: { text: 'y' } })), {
      id: 'n1',
      text: 'y'
    })
    t.strictSame(await library.runDocument({ collection: 'notes', operation: 'update', docId: id }, scope({ body: { more: 1 } })), {
      id: 'n1',
      text: 'y',
      more: 1
    })
    t.strictSame(await library.runDocument({ collection: 'notes', operation: 'delete', docId: id }, scope({})), { success: true })
    t.equal(await library.runDocument({ collection: 'notes', operation: 'delete', docId: id }, scope({})), null)
    t.strictSame(await newEvents(library), [
      event('created', 'notes', 'n1', { id: 'n1', text: 'x' }),
      event('updated', 'notes', 'n1', { id: 'n1', text: 'y' }),
      event('updated', 'notes', 'n1', { id: 'n1', text: 'y', more: 1 }),
      event('deleted', 'notes', 'n1', { id: 'n1', text: 'y', more: 1 })
    ])
    t.match(await library.runDocument({ collection: 'notes', operation: 'add' }, scope({ body: [{ text: '1' }, { text: '2' }] })), {
      data: [{ text: '1' }, { text: '2' }]
    })
    t.match(await newEvents(library), [{ type: 'entity.created', data: { record: { text: '1' } } }, {
      type: 'entity.created',
      data: { record: { text: '2' } }
    }])
    await library.runDocument({ collection: 'notes', operation: 'add' }, { ...heard, tenant: null, body: { text: '3' } })
    t.match(await newEvents(library), [{ tenant: '', type: 'entity.created' }])
    await library.runDocument({ collection: 'notes', operation: 'add' }, { body: { text: '4' } })
    t.strictSame(await newEvents(library), [], 'no event without listeners')
  }
})
