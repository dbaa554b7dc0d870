/** A document with every kind of route, for tests that send invalid input. */
import type { TestDocument } from '../helpers/server.js'

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
const byId = [{ column: 'id', value: '{{params.id}}' }]

/** Tenants for tests whose parts each need one. */
export const numberedTenants = Array.from({ length: 8 }, (_, index) => `tenant-${index + 1}`)

export const tables = {
  people: {
    tenantScoped: true,
    columns: { id, name: { type: 'text', notNull: true }, email: { type: 'text' } },
    unique: [['tenant_id', 'email']]
  },
  notes: {
    tenantScoped: true,
    softDelete: true,
    columns: {
      id,
      title: { type: 'text', notNull: true },
      body: { type: 'text' },
      code: { type: 'text', unique: true },
      small: { type: 'smallint' },
      rank: { type: 'integer' },
      big: { type: 'bigint' },
      price: { type: 'numeric' },
      ratio: { type: 'double precision' },
      done: { type: 'boolean', default: false },
      due: { type: 'date' },
      at: { type: 'timestamptz' },
      tags: { type: 'text[]' },
      numbers: { type: 'integer[]' },
      extra: { type: 'jsonb' },
      bytes: { type: 'bytea' },
      address: { type: 'inet' },
      author_id: { type: 'uuid', references: 'people.id' }
    }
  },
  countries: { columns: { code: { type: 'text', primaryKey: true }, name: { type: 'text' } } }
} as const satisfies TestDocument['tables']

export const routes = [
  // Lists
  {
    method: 'get',
    path: '/notes',
    queries: [{
      table: 'notes',
      operation: 'select',
      select: '*, author:people(name)',
      order: [{ column: 'title' }],
      filters: [
        { column: 'title', operator: 'ilike', value: '%{{query.q}}%', optional: true },
        { column: 'title', value: '{{query.title}}', optional: true },
        { column: 'title', operator: 'like', value: '{{query.like}}', optional: true },
        { column: 'rank', operator: 'gte', value: '{{query.rank}}', optional: true },
        { column: 'id', operator: 'in', value: '{{query.ids}}', optional: true },
        { column: 'tags', operator: 'contains', value: '{{query.tag}}', optional: true },
        { column: 'due', operator: 'lt', value: '{{query.before}}', optional: true },
        { column: 'done', operator: 'is', value: '{{query.done}}', optional: true },
        { column: 'extra', operator: 'contains', value: '{{query.extra}}', optional: true },
        {
          or: [{ column: 'body', value: '{{query.word}}', optional: true }, {
            not: { column: 'code', value: '{{query.word}}', optional: true }
          }]
        }
      ]
    }]
  },
  {
    method: 'get',
    path: '/people',
    queries: [{ table: 'people', operation: 'select', select: 'id, name, notes(id, title), total:notes(count)' }]
  },
  { method: 'get', path: '/countries', queries: [{ table: 'countries', operation: 'select' }] },
  {
    method: 'get',
    path: '/strict',
    request: { query: { q: { type: 'string', maxLength: 20 }, page: { type: 'integer', minimum: 1 } } },
    queries: [{ table: 'notes', operation: 'select', limit: 5, offset: '{{query.page || 0}}' }]
  },
  {
    method: 'get',
    path: '/by-header',
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: '{{headers.x-title}}' }] }]
  },
  // Records
  { method: 'get', path: '/notes/:id', queries: [{ table: 'notes', operation: 'select', single: true, filters: byId }] },
  { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] },
  { method: 'patch', path: '/notes/:id', queries: [{ table: 'notes', operation: 'update', filters: byId }] },
  { method: 'put', path: '/notes/:id', queries: [{ table: 'notes', operation: 'upsert', id: '{{params.id}}' }] },
  { method: 'post', path: '/notes/upsert', queries: [{ table: 'notes', operation: 'upsert' }] },
  {
    method: 'patch',
    path: '/by-title/:title',
    queries: [{
      table: 'notes',
      operation: 'update',
      data: { body: '{{body.body}}' },
      filters: [{ column: 'title', value: '{{params.title}}' }]
    }]
  },
  {
    method: 'delete',
    path: '/notes/:id',
    softDelete: { enabled: true, allowHardDelete: true },
    queries: [{ table: 'notes', operation: 'delete', filters: byId }]
  },
  { method: 'post', path: '/people', queries: [{ table: 'people', operation: 'insert' }] },
  { method: 'delete', path: '/people/:id', queries: [{ table: 'people', operation: 'delete', filters: byId }] },
  {
    method: 'post',
    path: '/checked',
    request: {
      body: {
        title: { type: 'string', required: true, maxLength: 50 },
        rank: { type: 'integer', minimum: 0, maximum: 10 },
        done: { type: 'boolean' },
        tags: { type: 'array', maxLength: 3, items: { type: 'string' } },
        extra: { type: 'object', properties: { colour: { type: 'string', enum: ['red', 'green'] } } }
      }
    },
    queries: [{ table: 'notes', operation: 'insert' }]
  },
  {
    method: 'post',
    path: '/open',
    request: { body: { title: { type: 'string' } }, additionalFields: true },
    queries: [{ table: 'notes', operation: 'insert' }]
  },
  {
    method: 'post',
    path: '/mapped',
    queries: [{
      table: 'notes',
      operation: 'insert',
      data: { title: '{{body.name}}', body: 'by {{body.by || "nobody"}}', extra: '{{body.extra}}', tenant_id: '{{body.tenant}}' }
    }]
  },
  {
    method: 'post',
    path: '/pairs',
    queries: [
      { table: 'people', operation: 'insert', alias: 'person', data: { name: '{{body.name}}' } },
      { table: 'notes', operation: 'insert', alias: 'note', data: { title: '{{body.title}}', author_id: '{{results.person.id}}' } }
    ]
  },
  // Documents
  {
    method: 'get',
    path: '/docs',
    firebaseQueries: [{
      collection: 'docs',
      operation: 'query',
      order: { column: 'name' },
      filters: [
        { column: 'name', value: '{{query.name}}', optional: true },
        { column: 'a.b', operator: 'gt', value: '{{query.gt}}', optional: true },
        { column: 'tags', operator: 'overlaps', value: '{{query.tags}}', optional: true },
        { column: 'name', operator: 'like', value: '{{query.like}}', optional: true }
      ]
    }]
  },
  { method: 'get', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'get', docId: '{{params.id}}' }] },
  { method: 'post', path: '/docs', firebaseQueries: [{ collection: 'docs', operation: 'add' }] },
  { method: 'put', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'set', docId: '{{params.id}}' }] },
  { method: 'patch', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'update', docId: '{{params.id}}' }] },
  { method: 'delete', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'delete', docId: '{{params.id}}' }] },
  // Routes without a database
  {
    method: 'get',
    path: '/echo/:word',
    response: {
      word: '{{params.word}}',
      q: '{{query.q}}',
      text: 'you said {{query.q}}',
      agent: '{{headers.user-agent}}',
      sub: '{{auth.sub}}',
      tenant: '{{tenant.id}}'
    }
  },
  { method: 'post', path: '/echo', response: { body: '{{body}}', text: 'you said {{body.text}}' } },
  {
    method: 'get',
    path: '/computed',
    transform: {
      fields: {
        shout: 'item.title + "!"',
        worth: 'item.price * item.rank',
        share: 'item.rank / item.small',
        rest: 'item.rank % item.small',
        first: 'item.tags[0]',
        many: 'size(item.tags) > 3 ? "many" : "few"',
        colour: 'item.extra.colour',
        late: 'item.due < item.at',
        longer: '{{query.q}} + item.body'
      }
    },
    queries: [{ table: 'notes', operation: 'select' }]
  },
  {
    method: 'get',
    path: '/short',
    response: { type: 'object', properties: { title: { type: 'string' } } },
    queries: [{ table: 'notes', operation: 'select' }]
  },
  // Access
  { method: 'get', path: '/mine', requireAuth: true, response: { sub: '{{auth.sub}}', tenant: '{{tenant.id}}', role: '{{auth.role}}' } },
  { method: 'get', path: '/writers', requiredPermissions: ['notes:write', 'notes:read'], response: { ok: true } },
  { method: 'get', path: '/members', public: false, queries: [{ table: 'notes', operation: 'select' }] },
  { method: 'post', path: '/members', requireAuth: true, queries: [{ table: 'notes', operation: 'insert' }] },
  {
    method: 'get',
    path: '/hidden/:id',
    excludeFields: ['body'],
    queries: [{ table: 'notes', operation: 'select', single: true, filters: byId }]
  },
  {
    method: 'patch',
    path: '/hidden/:id',
    requireAuth: true,
    excludeFields: ['body'],
    queries: [{ table: 'notes', operation: 'update', filters: byId }]
  },
  // Cached
  {
    method: 'get',
    path: '/cached/notes',
    cache: { enabled: true, ttl: 60 },
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: '{{query.title}}', optional: true }] }]
  },
  {
    method: 'get',
    path: '/cached/mine',
    requireAuth: true,
    cache: { enabled: true, ttl: 60 },
    response: { sub: '{{auth.sub}}', lang: '{{headers.accept-language}}' }
  },
  {
    method: 'get',
    path: '/cached/hidden/:id',
    excludeFields: ['body'],
    cache: { enabled: true, ttl: 60 },
    queries: [{ table: 'notes', operation: 'select', single: true, filters: byId }]
  },
  {
    method: 'get',
    path: '/cached/key',
    cache: { enabled: true, ttl: 60, key: 'k:{{query.k}}' },
    queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: '{{query.k}}' }] }]
  },
  { method: 'get', path: '/cached/docs', cache: { enabled: true, ttl: 60 }, firebaseQueries: [{ collection: 'docs', operation: 'query' }] }
] as const satisfies TestDocument['routes']

export const everyKind: TestDocument = { tables, routes: [...routes] }
