/** Lists of documents: filters, orders, pages and fields. */
import { refused } from '../../../http/caller.js'
import type { Check } from './check.js'
import { bodyOf, fill, idsOf } from './check.js'

export const reads: Readonly<Record<string, Check>> = {
  'filters by fields, typed by the value': {
    async run (t, { a }) {
      await fill(a)
      const cases: ReadonlyArray<readonly [string, readonly string[]]> = [
        ['/eq?x=a', ['n1']],
        ['/eq?x=none', []],
        ['/eq', []],
        ['/eq-optional', ['n1', 'n2', 'n3']],
        ['/eq-optional?x=b', ['n2']],
        ['/neq?x=a', ['n2', 'n3']],
        ['/neq', []],
        ['/gt?x=3', ['n2']],
        ['/gt?x=2', ['n1', 'n2', 'n3']],
        ['/gt?x=a', []],
        ['/between', ['n1']],
        ['/in?x=a,c', ['n1', 'n3']],
        ['/in?x=a&x=b', ['n1', 'n2']],
        ['/in?x=', []],
        ['/in', []],
        ['/is-true', ['n1']],
        ['/has?x=x', ['n1']],
        ['/has?x=7', ['n2']],
        ['/has?x=x,y', []],
        ['/has', []],
        ['/has-any?x=y,z', ['n1', 'n2']],
        ['/has-any?x=none', []],
        ['/overlaps', ['n1', 'n2']],
        ['/either', ['n1', 'n2']],
        ['/either-optional', ['n1', 'n2', 'n3']],
        ['/either-optional?kind=a', ['n1']],
        ['/either-optional?kind=a&count=20', ['n1', 'n2']],
        ['/object', ['n2']]
      ]
      for (const [target, expected] of cases) t.same(await idsOf(a, target), expected, target)
    }
  },

  'finds texts of a URL that no number can hold': {
    async run (t, { a }) {
      for (const kind of ['89490200001234567890', '0.12345678901234567890', '1e999', '{"$timestamp":"x"}']) {
        await a('PUT /notes/long', { body: { kind, tags: [kind] } })
        const x = encodeURIComponent(kind)
        t.same(await idsOf(a, `/eq?x=${x}`), ['long'], kind)
        t.same(await idsOf(a, `/neq?x=${x}`), ['n1', 'n2', 'n3'], `not ${kind}`)
        t.same(await idsOf(a, `/in?x=a,${x}`), ['long', 'n1'], `in ${kind}`)
        t.same(await idsOf(a, `/has?x=${x}`), ['long'], `contains ${kind}`)
        t.same(await idsOf(a, `/has-any?x=${x},y`), ['long', 'n1'], `contains any of ${kind}`)
      }
      await a('DELETE /notes/long')
    }
  },

  'compares a declared text as a text only': {
    async run (t, { a }) {
      t.same(await idsOf(a, '/eq-text?x=3'), ['n3'])
      t.same(await idsOf(a, '/neq-text?x=3'), ['n1', 'n2'])
      t.same(await idsOf(a, '/gt-text?x=2'), ['n3'])
      t.same(await idsOf(a, '/gt-text?x=29490200001234567890'), ['n3'])
      t.same(await idsOf(a, '/in-text?x=3,20'), ['n3'])
      t.same(await idsOf(a, '/has-text?x=7'), [])
      t.same(await idsOf(a, '/has-text?x=x'), ['n1'])
    }
  },

  'orders no value by NaN': {
    async run (t, { a }) {
      await a('PUT /notes/nan', { body: { count: { $number: 'NaN' } } })
      t.same(await idsOf(a, `/gt?x=${encodeURIComponent('{"$number":"NaN"}')}`), [])
      await a('DELETE /notes/nan')
    }
  },

  'finds NaN and null by equality': {
    gap: 'NaN and null',
    async run (t, { a }) {
      await a('PUT /notes/nan', { body: { kind: { $number: 'NaN' } } })
      await a('PUT /notes/null', { body: { kind: null } })
      t.same(await idsOf(a, '/from-nan'), ['nan'])
      t.same(await idsOf(a, '/in-odd'), ['n1', 'nan', 'null'])
      for (const id of ['nan', 'null']) await a(`DELETE /notes/${id}`)
    }
  },

  'filters by paths into fields': {
    gap: 'paths into fields',
    run: async (t, { a }) => {
      t.same(await idsOf(a, '/inside'), ['n1'])
    }
  },

  'filters by nested groups': {
    gap: 'nested filters',
    run: async (t, { a }) => {
      t.same(await idsOf(a, '/nested'), ['n2'])
    }
  },

  'filters by ids': {
    gap: 'ids in filters and order',
    async run (t, { a }) {
      t.same(await idsOf(a, '/by-id?x=n1,n3'), ['n1', 'n3'])
      t.same(await idsOf(a, '/by-id?x=a%2Fb,..,__x__'), [], 'texts that are not ids')
    }
  },

  'finds no null with `neq`': {
    gap: 'null and neq',
    async run (t, { a }) {
      await a('PUT /notes/null', { body: { kind: null } })
      t.same(await idsOf(a, '/neq?x=a'), ['n2', 'n3'])
      await a('DELETE /notes/null')
    }
  },

  'returns pages in order, with a total': {
    async run (t, { a }) {
      const ranks = async (target: string) => {
        const { body } = await a(target)
        return [body.data?.map(({ rank }) => rank), body['pagination']]
      }
      t.same(await ranks('GET /notes'), [[1, 2, 3], { limit: 20, offset: 0, total: 3 }])
      t.same(await ranks('GET /descending'), [[3, 2, 1], { limit: 20, offset: 0, total: 3 }])
      t.same(await ranks('GET /notes?limit=2'), [[1, 2], { limit: 2, offset: 0, total: 3 }])
      t.same(await ranks('GET /notes?limit=3'), [[1, 2, 3], { limit: 3, offset: 0, total: 3 }])
      t.same(await ranks('GET /notes?limit=0'), [[], { limit: 0, offset: 0, total: 3 }])
      t.match((await a('GET /notes?limit=1000')).body['pagination'], { limit: 100 }, 'no page exceeds `pagination.maxLimit`')
      for (const page of ['limit=-1', 'limit=x', 'offset=1.5']) refused(t, await a(`GET /notes?${page}`), 400, 'VALIDATION_FAILED', page)
    }
  },

  'returns later pages': {
    gap: 'offset',
    async run (t, { a }) {
      t.match((await a('GET /notes?offset=2')).body, { data: [{ rank: 3 }], pagination: { limit: 20, offset: 2, total: 3 } })
      t.match((await a('GET /notes?offset=9')).body, { data: { length: 0 }, pagination: { limit: 20, offset: 9, total: 3 } })
    }
  },

  'returns the fields of `select`': {
    async run (t, { a }) {
      t.same(await bodyOf(a('GET /selected/n1')), [200, { id: 'n1', kind: 'a' }])
      t.same((await a('GET /selected')).body.data, [{ id: 'n1', rank: 1, kind: 'a' }, { id: 'n2', rank: 2, kind: 'b' }, {
        id: 'n3',
        rank: 3,
        kind: 'c'
      }])
    }
  },

  'leaves out excluded fields, and does not write them': {
    async run (t, { a }) {
      await a('PUT /notes/s', { body: { kind: 'secret', secret: 1 } })
      t.same(await bodyOf(a('GET /discreet/s')), [200, { id: 's', kind: 'secret' }])
      t.same((await a('GET /discreet')).body.data, [{ id: 's', kind: 'secret' }])
      t.same(await bodyOf(a('PUT /discreet/t', { body: { kind: 'other', secret: 2 } })), [200, { id: 't', kind: 'other' }])
      t.same(await bodyOf(a('GET /notes/t')), [200, { id: 't', kind: 'other' }])
      for (const id of ['s', 't']) await a(`DELETE /notes/${id}`)
    }
  }
}
