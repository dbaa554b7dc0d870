/** Filters of documents on SQL with values of types that JSON lacks, and with texts of a URL. */
import type { Test } from 'tap'
import type { Scope } from '../../../lib/expressions/types.js'
import type { QueryContext } from '../../../lib/queries/index.js'
import type { DocumentQuery, Filter, Operator } from '../../../lib/schema/query.js'
import { type Library, onEachEngine, refusalOf } from './database.js'
import { documentFaultsOf } from './helpers.js'

const noon = { $timestamp: '2026-01-31T12:00:00Z' }
const later = { $timestamp: '2026-01-31T12:00:00.5Z' }
const nan = { $number: 'NaN' }
const infinity = { $number: 'Infinity' }
const least = { $number: '-Infinity' }

/** Each document has the value in its field `v`. */
async function write (library: Library, values: Readonly<Record<string, unknown>>): Promise<void> {
  const query: DocumentQuery = { collection: 'notes', operation: 'set', docId: '{{params.id}}' }
  for (const [id, v] of Object.entries(values)) await library.runDocument(query, { params: { id }, body: { v } })
}

/** The ids of the documents that match, in their order. */
async function idsOf (
  library: Library,
  filter: Filter,
  scope: Partial<Scope> = {},
  changes: Partial<QueryContext> = {}
): Promise<string> {
  const query: DocumentQuery = { collection: 'notes', operation: 'query', filters: [filter], select: 'id', order: { column: 'id' } }
  return [...JSON.stringify(await library.runDocument(query, scope, changes)).matchAll(/"id":"(\w+)"/g)].map(([, id]) => id).join(' ')
}

function finder (t: Test, library: Library): (operator: Operator, x: unknown, expected: string) => Promise<void> {
  return async (operator, x, expected) => {
    const name = `${operator} ${JSON.stringify(x)}`
    t.equal(await idsOf(library, { column: 'v', operator, value: '{{body.x}}' }, { body: { x } }), expected, name)
    t.equal(await idsOf(library, { column: 'v', operator, value: x }), expected, `${name}, a constant`)
  }
}

onEachEngine('', {
  'a filter reads a typed value like a write': async (t, library) => {
    await write(library, { array: [later], bytes: { $bytes: 'AQID_-' }, object: { at: noon }, t1: noon, t2: later })
    const find = finder(t, library)
    for (const x of [noon, { $timestamp: '2026-01-31T13:00:00+01:00' }]) {
      await find('eq', x, 't1')
      await find('in', [x, later], 't1 t2')
      await find('neq', x, 'array bytes object t2')
      await find('gt', x, 't2')
      await find('gte', x, 't1 t2')
      await find('lt', x, '')
      await find('lte', x, 't1')
      await find('contains', { at: x }, 'object')
    }
    await find('array-contains', { $timestamp: '2026-01-31T13:00:00.500+01:00' }, 'array')
    await find('overlaps', [noon, later], 'array')
    await find('eq', { $bytes: 'AQID_-' }, 'bytes')

    const part: Filter = { column: 'v', operator: 'gte', value: { $timestamp: '{{query.since}}' } }
    t.equal(await idsOf(library, part, { query: { since: '2026-01-31T13:00:00+01:00' } }), 't1 t2')
    t.equal(await idsOf(library, part), '', 'a template without a value matches nothing')
    for (const operator of ['eq', 'in', 'gte'] as const) {
      const filter: Filter = { column: 'v', operator, value: '{{query.x}}' }
      const query = { x: '{"$timestamp":"2026-01-31T12:00:00Z"}' }
      t.equal(await idsOf(library, filter, { query }), operator === 'gte' ? 't1 t2' : 't1', `${operator} of a URL`)
    }
  },

  'a malformed typed value of a filter is a 400, and a fault of the configuration': async (t, library) => {
    await write(library, { t1: noon, text: '{"$timestamp":"zz"}' })
    const x = { $timestamp: 'zz' }
    const expected = 'must be a date and time of the years 1 to 9999, such as "2026-01-31T12:00:00Z"'
    const message = `the field "v" is compared with a value that ${expected}`
    for (const operator of ['eq', 'neq', 'gte', 'contains', 'array-contains', 'in'] as const) {
      const refused = refusalOf(idsOf(library, { column: 'v', operator, value: '{{body.x}}' }, { body: { x } }))
      t.match(await refused, { status: 400, details: [{ path: '/body/x', message }] }, operator)
      const query: DocumentQuery = { collection: 'notes', operation: 'query', filters: [{ column: 'v', operator, value: x }] }
      t.strictSame(documentFaultsOf(query), [`/q/filters/0/value: ${message}`], operator)
    }
    const query = { x: '{"$timestamp":"zz"}' }
    t.equal(await idsOf(library, { column: 'v', value: '{{query.x}}' }, { query }), 'text', 'equality compares with the text alone')
    const refused = refusalOf(idsOf(library, { column: 'v', operator: 'gt', value: '{{query.x}}' }, { query }))
    t.match(await refused, { status: 400, details: [{ path: '/query/x', message }] })
  },

  'values of different types have no order, and NaN has none': async (t, library) => {
    await write(library, {
      bytes: { $bytes: 'AQID' },
      five: 5,
      geo: { $geoPoint: { latitude: 1, longitude: 2 } },
      infinity,
      least,
      missing: null,
      nan,
      plain: { $timestamp: 'x', more: 1 },
      seven: 7,
      t1: noon,
      text: 'zz',
      yes: true
    })
    const find = finder(t, library)
    await find('lte', later, 't1')
    await find('gte', { $timestamp: '0001-01-01T00:00:00Z' }, 't1')
    await find('gte', { a: 1 }, 'plain')
    await find('gt', 5, 'infinity seven')
    await find('gte', 5, 'five infinity seven')
    await find('lt', 7, 'five least')
    await find('lte', infinity, 'five infinity least seven')
    await find('lt', infinity, 'five least seven')
    await find('gt', infinity, '')
    await find('gte', infinity, 'infinity')
    await find('gt', least, 'five infinity seven')
    await find('lt', least, '')
    for (const operator of ['gte', 'lte', 'eq'] as const) await find(operator, nan, 'nan')
    for (const operator of ['gt', 'lt'] as const) await find(operator, nan, '')
    await find('lt', 'zzz', 'text')

    const query = { x: '7' }
    t.equal(await idsOf(library, { column: 'v', operator: 'gte', value: '{{query.x}}' }, { query }), 'infinity seven text')
    const not: Filter = { not: { column: 'v', operator: 'gt', value: '{{body.x}}' } }
    t.equal(await idsOf(library, not, { body: { x: 5 } }), 'bytes five geo least missing nan plain t1 text yes')
    t.equal(await idsOf(library, not, { body: {} }), '', 'a template without a value')
    t.equal(await idsOf(library, { not: { column: 'w', operator: 'gt', value: 5 } }), '', 'a missing field')
    t.equal(await idsOf(library, { not: { column: 'w', operator: 'gt', value: '{{query.x}}' } }, { query }), '', 'a missing field')
  },

  'a text of the URL in a list of templates counts as each JSON value that it can represent': async (t, library) => {
    await write(library, { array: [7, 'x'], n7: 7, n8: 8, object: { a: 1 }, s7: '7', s8: '8', t1: noon })
    const find = (value: unknown, scope: Partial<Scope>, changes: Partial<QueryContext> = {}, operator: Operator = 'in') =>
      idsOf(library, { column: 'v', operator, value }, scope, changes)
    const list = ['{{query.x}}', '{{query.y}}']
    t.equal(await find(list, { query: { x: '7' } }), 'n7 s7')
    t.equal(await find(list, { query: { x: '7', y: '{"a": 1}' } }), 'n7 object s7')
    t.equal(await find(list, { query: { y: '{"$timestamp":"2026-01-31T13:00:00+01:00"}' } }), 't1')
    t.equal(await find(list, { query: {} }), '', 'no value')
    const mixed = { params: { x: '7' }, body: { y: 8 } }
    t.equal(await find(['{{params.x}}', '8', '{{body.y}}'], mixed), 'n7 n8 s7 s8', 'other items as they are')
    t.equal(await find(['{{headers.x}}', '8'], { headers: { x: '{' } }), 's8', 'a text that is not JSON')
    for (const operator of ['overlaps', 'array-contains-any'] as const) {
      t.equal(await find(list, { query: { x: '7' } }, {}, operator), 'array', operator)
    }
    const rules = { query: { x: { type: 'string' }, y: { type: 'string' } } } as const
    t.equal(await find(list, { query: { x: '7' } }, { rules }), 's7', 'declared texts')
    t.equal(await idsOf(library, { not: { column: 'v', operator: 'in', value: list } }, { query: { x: '7', y: '8' } }), 'array object t1')
    t.equal(await idsOf(library, { not: { column: 'v', operator: 'in', value: list } }), '', 'no value')
    t.equal(await idsOf(library, { column: 'id', operator: 'in', value: list }, { query: { x: 'n7' } }), 'n7', 'ids are texts')
  }
})
