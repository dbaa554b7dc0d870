/** Writes of documents. */
import { refused } from '../../../http/caller.js'
import type { Check } from './check.js'
import { bodyOf } from './check.js'

export const writes: Readonly<Record<string, Check>> = {
  'replaces a document as a whole': {
    gap: 'set replaces',
    async run (t, { a }) {
      await a('PUT /notes/whole', { body: { a: 1, secret: 2 } })
      t.same(await bodyOf(a('PUT /notes/whole', { body: { b: 1 } })), [200, { id: 'whole', b: 1 }])
      t.same(await bodyOf(a('GET /notes/whole')), [200, { id: 'whole', b: 1 }])
      await a('DELETE /notes/whole')
    }
  },

  'creates, reads, changes and deletes a document': {
    async run (t, { a }) {
      t.match(await a('POST /notes/first', { body: { title: 'x', deep: { a: [1, { b: null }] } } }), {
        status: 201,
        body: { id: 'first', title: 'x', deep: { a: [1, { b: null }] } },
        headers: { location: '/notes/first' }
      })
      refused(t, await a('POST /notes/first', { body: { title: 'y' } }), 409, 'CONFLICT', 'the id is in use')
      t.same((await a('GET /notes/first')).body, { id: 'first', title: 'x', deep: { a: [1, { b: null }] } })
      t.match(await a('DELETE /notes/first'), { status: 200 })
      t.same(await bodyOf(a('PUT /notes/own', { body: { a: 1, b: { c: 2 } } })), [200, { id: 'own', a: 1, b: { c: 2 } }])
      t.same(await bodyOf(a('PATCH /notes/own', { body: { b: { d: 3 }, e: null, 'odd.name': 1 } })), [200, {
        id: 'own',
        a: 1,
        b: { d: 3 },
        e: null,
        'odd.name': 1
      }])
      t.same(await bodyOf(a('GET /notes/own')), [200, { id: 'own', a: 1, b: { d: 3 }, e: null, 'odd.name': 1 }])
      t.same(await bodyOf(a('PATCH /notes/own', { body: {} })), [200, { id: 'own', a: 1, b: { d: 3 }, e: null, 'odd.name': 1 }])
      t.same(await bodyOf(a('DELETE /notes/own')), [200, { success: true }])
      for (
        const [target, body] of [['GET /notes/own', undefined], ['PATCH /notes/own', { a: 1 }], ['PATCH /notes/own', {}], [
          'DELETE /notes/own',
          undefined
        ]] as const
      ) {
        refused(t, await a(target, body === undefined ? {} : { body }), 404, 'NOT_FOUND', target)
      }
    }
  },

  'creates documents with generated ids': {
    async run (t, { a }) {
      const { status, body, headers } = await a('POST /notes', { body: { title: 'x' } })
      t.match([status, body], [201, { title: 'x', id: /^[0-9a-f-]{36}$/ }])
      t.equal(headers['location'], `/notes/${String(body['id'])}`)
      const many = await a('POST /notes', { body: [{ n: 1 }, { n: 2 }] })
      t.match([many.status, many.body.data], [201, [{ n: 1, id: String }, { n: 2, id: String }]])
      t.same(await bodyOf(a('POST /notes', { body: [] })), [201, { data: [] }])
      for (const { id } of [body, ...many.body.data ?? []]) t.match(await a(`DELETE /notes/${String(id)}`), { status: 200 })
    }
  },

  'merges with `merge`, and creates a missing document': {
    async run (t, { a }) {
      t.same(await bodyOf(a('PUT /merged/m', { body: { a: 1, b: { c: 2 } } })), [200, { id: 'm', a: 1, b: { c: 2 } }])
      t.same(await bodyOf(a('PUT /merged/m', { body: { b: { d: 3 }, e: [1] } })), [200, { id: 'm', a: 1, b: { d: 3 }, e: [1] }])
      t.same(await bodyOf(a('GET /notes/m')), [200, { id: 'm', a: 1, b: { d: 3 }, e: [1] }])
      t.same(await bodyOf(a('PUT /merged/empty', { body: {} })), [200, { id: 'empty' }])
      t.same(await bodyOf(a('GET /notes/empty')), [200, { id: 'empty' }])
      for (const id of ['m', 'empty']) await a(`DELETE /notes/${id}`)
    }
  },

  'keeps excluded fields when a caller without full access replaces the document': {
    gap: 'set replaces',
    async run (t, { a, admin }) {
      t.same(await bodyOf(admin('PUT /discreet/kept', { body: { kind: 'x', old: 1, secret: { a: [1] } } })), [200, {
        id: 'kept',
        kind: 'x',
        old: 1,
        secret: { a: [1] }
      }])
      t.same(await bodyOf(a('PUT /discreet/kept', { body: { kind: 'y', 'odd.name': 2, secret: 'mine' } })), [200, {
        id: 'kept',
        kind: 'y',
        'odd.name': 2
      }])
      t.same(await bodyOf(a('GET /notes/kept')), [200, { id: 'kept', kind: 'y', 'odd.name': 2, secret: { a: [1] } }])
      t.same(await bodyOf(a('PUT /discreet/kept', { body: {} })), [200, { id: 'kept' }])
      t.same(await bodyOf(a('PUT /discreet/kept', { body: {} })), [200, { id: 'kept' }])
      t.same(await bodyOf(a('GET /notes/kept')), [200, { id: 'kept', secret: { a: [1] } }])
      t.same(await bodyOf(a('POST /discreet/kept', { body: { kind: 'z' } })), [200, { first: { id: 'kept' }, second: { id: 'kept', kind: 'z' } }])
      t.same(await bodyOf(a('GET /notes/kept')), [200, { id: 'kept', kind: 'z', secret: { a: [1] } }])
      await a('DELETE /notes/kept')
      t.same(await bodyOf(a('PUT /discreet/kept', { body: { kind: 'new' } })), [200, { id: 'kept', kind: 'new' }])
      t.same(await bodyOf(a('GET /notes/kept')), [200, { id: 'kept', kind: 'new' }])
      await a('DELETE /notes/kept')
    }
  }
}
