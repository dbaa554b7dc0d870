/** Rules of every request: transactions, versions, tenants, and forms of values. */
import { refused } from '../../../http/caller.js'
import type { Check } from './check.js'
import { bodyOf, idsOf, notes } from './check.js'

export const requests: Readonly<Record<string, Check>> = {
  'chains queries by their results, in one transaction that sees its own writes': {
    async run (t, { a }) {
      t.same(await bodyOf(a('POST /copy/n1')), [200, {
        source: { id: 'n1', ...notes['n1'] },
        copy: { id: 'n1', of: 'n1', kind: 'a' },
        mark: { id: 'n1', ...notes['n1'], copied: true },
        after: { id: 'n1', ...notes['n1'], copied: true }
      }])
      t.same(await bodyOf(a('GET /copies/n1')), [200, { id: 'n1', of: 'n1', kind: 'a' }])
      refused(t, await a('POST /copy/none'), 404, 'NOT_FOUND', 'the source is missing')
      refused(t, await a('GET /copies/none'), 404, 'NOT_FOUND', 'nothing is written')
      refused(t, await a('POST /both/new', { body: { other: 'none' } }), 404, 'NOT_FOUND', 'the second write has no document')
      refused(t, await a('GET /notes/new'), 404, 'NOT_FOUND', 'the first write is rolled back')
    }
  },

  'honours If-Match': {
    async run (t, { a }) {
      const { headers: { etag } } = await a('GET /notes/n2')
      t.match(await a('PATCH /notes/n2', { body: { kind: 'b' }, headers: { 'if-match': String(etag) } }), { status: 200 })
      await a('PATCH /notes/n2', { body: { changed: 1 } })
      refused(
        t,
        await a('PATCH /notes/n2', { body: { kind: 'lost' }, headers: { 'if-match': String(etag) } }),
        412,
        'PRECONDITION_FAILED',
        'another version'
      )
      t.match((await a('GET /notes/n2')).body, { kind: 'b', changed: 1 })
    }
  },

  'writes once for each idempotency key': {
    async run (t, { a }) {
      const headers = { 'idempotency-key': 'k1' }
      const first = await a('POST /notes/once', { body: { a: 1 }, headers })
      const second = await a('POST /notes/once', { body: { a: 1 }, headers })
      t.same([first.status, second.status, second.body], [201, 201, first.body])
      await a('DELETE /notes/once')
    }
  },

  'isolates tenants, whatever the id and the body': {
    async run (t, { a, b }) {
      await b('PUT /notes/n1', { body: { kind: 'of b' } })
      await a('PATCH /notes/n1', { body: { kind: 'of a', tenant_id: 'b', tenant: 'b' } })
      t.same(await bodyOf(b('GET /notes/n1')), [200, { id: 'n1', kind: 'of b' }])
      // Google's list leaves out documents without the field of its order.
      t.same((await b('GET /notes')).body.data?.filter(({ id }) => id !== 'n1'), [], "b's list has no document of a")
      t.same(await idsOf(b, '/eq?x=of%20b'), ['n1'])
      t.same(await idsOf(a, '/eq?x=of%20b'), [])
      refused(t, await b('GET /notes/n2'), 404, 'NOT_FOUND', "a's document")
      for (const id of ['../b/notes/n1', '..', '.', 'x/../../b/notes/n1', '__name__', 'tenants/b/notes/n1', '%00', 'n1%2F..%2Fn2']) {
        const path = `/any?id=${encodeURIComponent(id)}`
        for (const method of ['GET', 'PATCH', 'DELETE']) {
          const { status } = await a(`${method} ${path}`)
          t.ok(status === 404 || status === 400, `${method} ${path}: ${status}`)
        }
      }
      t.same(await bodyOf(b('GET /notes/n1')), [200, { id: 'n1', kind: 'of b' }])
      t.match(await b('DELETE /notes/n1'), { status: 200 })
      t.match(await a('PATCH /notes/n1', { body: { kind: 'a' } }), { status: 200 })
    }
  },

  'rejects the same bodies': {
    async run (t, { a }) {
      for (
        const [target, body] of [
          ['PUT /notes/x', []],
          ['PUT /notes/x', 'text'],
          ['PUT /notes/x', null],
          ['PUT /notes/x', { id: 'y' }],
          ['POST /notes/x', [{}]],
          ['PUT /notes/x', { a: 'NUL \u0000' }],
          ['PUT /notes/x', { a: '\ud800' }],
          ['PUT /notes/x', { at: { $timestamp: 'yesterday' } }],
          ['PUT /notes/x', { at: { $timestamp: '2026-02-30T00:00:00Z' } }],
          ['PUT /notes/x', { at: { $reference: 'notes' } }],
          ['PUT /notes/x', { at: { $reference: '../b/notes/n1' } }],
          ['PUT /notes/x', { at: { $geoPoint: { latitude: 91, longitude: 0 } } }],
          ['PUT /notes/x', { at: [{ $bytes: '?' }] }],
          ['PUT /notes/x', { at: { $number: 'many' } }],
          ['PUT /notes/x', { at: { $vector: [] } }]
        ] as const
      ) refused(t, await a(target, { body }), 400, 'VALIDATION_FAILED', `${target} ${JSON.stringify(body)}`)
      refused(t, await a('GET /notes/x'), 404, 'NOT_FOUND', 'nothing is written')
    }
  },

  'uses the same forms for types that JSON lacks': {
    async run (t, { a }) {
      const given = {
        at: { $timestamp: '2026-01-31T13:00:00.1234567+01:00' },
        point: { $geoPoint: { latitude: -1.5, longitude: 180 } },
        bytes: { $bytes: '-_8=' },
        other: { $reference: 'notes/n1' },
        list: [{ $number: 'NaN' }, { $timestamp: '1969-12-31T23:59:59.5Z' }]
      }
      const kept = {
        ...given,
        at: { $timestamp: '2026-01-31T12:00:00.123456Z' },
        bytes: { $bytes: '+/8=' },
        list: [{ $number: 'NaN' }, { $timestamp: '1969-12-31T23:59:59.500000Z' }]
      }
      t.same(await bodyOf(a('PUT /notes/typed', { body: given })), [200, { id: 'typed', ...kept }])
      t.same(await bodyOf(a('GET /notes/typed')), [200, { id: 'typed', ...kept }])
      t.same(await idsOf(a, `/at?x=${encodeURIComponent(JSON.stringify({ $timestamp: '2026-01-31T12:00:00.123456Z' }))}`), ['typed'])
      await a('DELETE /notes/typed')
    }
  },

  'keeps every digit of an integer': {
    gap: 'large integers',
    async run (t, { a }) {
      t.match(await a('PUT /notes/large', { raw: '{"n":9007199254740993,"m":-9223372036854775808}' }), { status: 200 })
      t.match((await a('GET /notes/large')).text, /"n": ?9007199254740993\b/)
      t.match((await a('GET /notes/large')).text, /"m": ?-9223372036854775808\b/)
      await a('DELETE /notes/large')
    }
  }
}
