/** Two tables of tenants, the second with references to both. */
import type { DeclaredTables } from '../../../lib/database/declared-tables.js'

export const authors: DeclaredTables[string] = {
  columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, email: { type: 'text', notNull: true, unique: true } },
  tenantScoped: true
}
export const notes: DeclaredTables[string] = {
  columns: {
    id: { type: 'bigint', primaryKey: true },
    title: { type: 'varchar', notNull: true, default: "it's \\ untitled" },
    author_id: { type: 'uuid', references: 'authors.id' },
    parent_id: { type: 'bigint', references: 'notes.id' },
    pages: { type: 'integer', default: 0 },
    price: { type: 'numeric', default: 1.5 },
    open: { type: 'boolean', default: false },
    tags: { type: 'text[]', default: ['a,b', '"', null] },
    grid: { type: 'integer[]', default: [[1, 2], [3, 4]] },
    none: { type: 'integer[]', default: [] },
    meta: { type: 'jsonb', default: { a: ["'"] } },
    day: { type: 'date', default: 'now()' },
    made: { type: 'timestamptz', default: 'now()', notNull: true },
    key: { type: 'text', default: 'uuid()' }
  },
  tenantScoped: true,
  softDelete: true,
  indexes: [['author_id']],
  unique: [['title', 'day']]
}
export const tables = { authors, notes }
