/** Paths: no name of a tenant, collection or document can lead to other documents. */
import { test } from 'tap'
import { documentPath, isPathSegment, placeOf, rootOf } from '../../../lib/firestore/paths.js'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'

const never = [
  '',
  '.',
  '..',
  '/',
  'a/b',
  '../b',
  'a/../b',
  '__x__',
  '____',
  '__id7__',
  '\0',
  '\ud800',
  'x'.repeat(513),
  'ü'.repeat(751),
  '漢'.repeat(501)
]

test('a segment never becomes another path', async (t) => {
  for (const text of never) {
    t.notOk(isPathSegment(text), JSON.stringify(text.slice(0, 20)))
    t.throws(() => documentPath(placeOf(tenantRef('a'), 'notes', false), text), /not a valid document id/)
    t.throws(() => placeOf(tenantRef('a'), text, false), /not a valid collection name/)
    t.throws(() => placeOf(tenantRef('a'), text, true), /not a valid collection name/)
  }
  for (const text of ['a', '...', '__x', 'x__', '___', '~', 'a b', '%2F', '\\', 'ü'.repeat(512), '漢'.repeat(500)]) {
    t.ok(isPathSegment(text), text.slice(0, 20))
  }
})

test('each tenant and the platform have separate roots', async (t) => {
  const tenants = ['a', 'A', '__a__', '_a_', '____', '-', '__', 'tenants']
  const roots = [...tenants.map(tenantRef), platformRef].map(rootOf)
  t.equal(new Set(roots).size, roots.length)
  for (const root of roots) {
    const [collection, segment, ...rest] = root.split('/')
    t.strictSame([collection, rest], ['tenants', []])
    t.ok(segment !== undefined && isPathSegment(segment), root)
  }
  for (const tenant of ['.', '..', 'a/b', '~', '~__a__', 'a b', 'x'.repeat(65)]) t.throws(() => rootOf(tenantRef(tenant)), JSON.stringify(tenant))
})

test("platform collections are at the root, and tenants' collections are not", async (t) => {
  t.strictSame(placeOf(tenantRef('a'), 'notes', false), { owner: 'a', path: 'tenants/a/notes', root: 'tenants/a' })
  t.strictSame(placeOf(tenantRef('a'), 'countries', true), { owner: 'a', path: 'countries', root: 'tenants/a' })
  t.strictSame(placeOf(platformRef, 'notes', false), { owner: '', path: 'tenants/~/notes', root: 'tenants/~' })
  t.equal(documentPath(placeOf(tenantRef('a'), 'notes', false), 'n 1'), 'tenants/a/notes/n 1')
})
