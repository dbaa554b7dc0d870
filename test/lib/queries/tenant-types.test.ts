/** Columns `tenant_id` of types that do not keep the ids of tenants apart. */
import { test } from 'tap'
import type { Column, Table } from '../../../lib/database/catalogue.js'
import type { Query } from '../../../lib/schema/query.js'
import { faultsOf } from './helpers.js'
import { catalogueOf, key, table } from './tables.js'

const works = 'expected text or varchar with a deterministic collation, uuid, smallint, integer or bigint'

function loosened (one: Table): Table {
  const column: Column = { ...one.columns.get('tenant_id')!, nondeterministic: true }
  return { ...one, columns: new Map([...one.columns, ['tenant_id', column]]) }
}

function tablesWith (type: string, loosen: (one: Table) => Table = (one) => one) {
  return catalogueOf(
    loosen(table('notes', ['id integer!', `tenant_id ${type}`, 'title text'])),
    table('lines', ['id integer!', 'tenant_id text!', 'note integer'], { foreignKeys: [key('lines_note_fkey', 'note', 'notes.id')] }),
    table('tags', ['id integer!', 'tenant_id text!']),
    loosen(table('line_tags', ['line integer!', 'tag integer!', `tenant_id ${type}`], {
      primaryKey: ['line', 'tag'],
      foreignKeys: [key('line_tags_line_fkey', 'line', 'lines.id'), key('line_tags_tag_fkey', 'tag', 'tags.id')]
    }))
  )
}

test('a table whose tenant has a type that is not an id of tenants cannot be used', async (t) => {
  for (const type of ['citext', 'character', 'name', 'jsonb', 'numeric', 'mood', 'boolean', 'text[]']) {
    const catalogue = tablesWith(type)
    const refusal = (name: string) => `the column "tenant_id" of "${name}" has the type ${type}: ${works}`
    for (const operation of ['select', 'insert', 'update', 'upsert', 'delete'] as const) {
      const query: Query = { table: 'notes', operation, ...operation !== 'insert' && { id: '{{params.id}}' } }
      t.strictSame(faultsOf(query, { catalogue }), [`/q/table: ${refusal('notes')}`], `${type}, ${operation}`)
    }
    t.strictSame(faultsOf({ table: 'lines', operation: 'select', select: 'notes(title)' }, { catalogue }), [`/q/select: ${refusal('notes')}`])
    t.strictSame(faultsOf({ table: 'lines', operation: 'select', select: 'tags(id)' }, { catalogue }), [`/q/select: ${refusal('line_tags')}`])
    for (const operation of ['insert', 'update', 'upsert'] as const) {
      const query: Query = { table: 'lines', operation, ...operation === 'update' && { id: '{{params.id}}' } }
      t.strictSame(faultsOf(query, { catalogue }), [`/q/table: "lines" refers to "notes": ${refusal('notes')}`], operation)
    }
    t.strictSame(faultsOf({ table: 'lines', operation: 'delete', id: '{{params.id}}' }, { catalogue }), [])
  }
})

test('a tenant in a text whose collation finds different texts equal cannot be used', async (t) => {
  for (const type of ['text', 'character varying']) {
    t.strictSame(faultsOf({ table: 'notes', operation: 'select' }, { catalogue: tablesWith(type, loosened) }), [
      `/q/table: the column "tenant_id" of "notes" has a nondeterministic collation: ${works}`
    ])
  }
})

test('a table whose tenant is a text, a UUID or an integer can be used', async (t) => {
  for (const type of ['text', 'character varying', 'uuid', 'smallint', 'integer', 'bigint']) {
    const catalogue = tablesWith(type)
    t.strictSame(faultsOf({ table: 'lines', operation: 'select', select: 'notes(title), tags(id)' }, { catalogue }), [], type)
    t.strictSame(faultsOf({ table: 'lines', operation: 'insert' }, { catalogue }), [], type)
  }
})
