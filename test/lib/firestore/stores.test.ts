/** One contract of documents: the same requests, answers and errors on PostgreSQL, on the embedded engine and on Firestore. */
import type { Test } from 'tap'
import { test } from 'tap'
import { firestoreServer } from '../../helpers/firestore.js'
import { needsGoogle } from '../../helpers/skips.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer, type TestDocument } from '../../helpers/server.js'
import { caller, refused, type Ask } from '../../http/caller.js'
import { storesDocument } from './document.js'

/** What the emulator from npm cannot show. */
type Gap =
  | 'ids in filters and order'
  | 'paths into fields'
  | 'nested filters'
  | 'offset'
  | 'select'
  | 'null and neq'
  | 'set replaces'
  | 'all writes or none'
  | 'large integers'
  | 'cursors'

interface Opened {
  readonly database: TestDocument
  /** Checks that name a gap of the store are skipped. */
  readonly hasGaps: boolean
}

const stores: Readonly<Record<string, (t: Test) => Promise<Opened>>> = {
  PostgreSQL: async (t) => ({
    database: { databaseProvider: 'postgres', postgres: { connectionString: (await postgresDatabase(t)).connectionString } },
    hasGaps: false
  }),
  'the embedded engine': async () => ({ database: { databaseProvider: 'embedded' }, hasGaps: false }),
  Firestore: async (t) => {
    const { emulatorHost, projectId, isComplete } = await firestoreServer(t)
    return { database: { databaseProvider: 'firebase', firebase: { projectId, emulatorHost } }, hasGaps: !isComplete }
  }
}

interface Callers {
  readonly a: Ask
  readonly b: Ask
}

interface Check {
  readonly gap?: Gap
  readonly run: (t: Test, callers: Callers) => Promise<void>
}

const notes: Readonly<Record<string, object>> = {
  n1: { rank: 1, kind: 'a', count: 3, tags: ['x', 'y'], owner: { name: 'Ada' }, open: true },
  n2: { rank: 2, kind: 'b', count: 20, tags: ['z', 7], owner: { name: 'Ben' }, open: false },
  n3: { rank: 3, kind: 'c', count: '3', open: false }
}

async function fill (ask: Ask): Promise<void> {
  for (const [id, note] of Object.entries(notes)) await ask(`PUT /notes/${id}`, { body: note })
}

/** The ids of a list, sorted: without an order it has the order of its store. */
async function idsOf (ask: Ask, target: string): Promise<unknown> {
  const { status, body } = await ask(`GET ${target}`)
  return status === 200 ? body.data?.map(({ id }) => String(id)).sort() : status
}

const checks: Readonly<Record<string, Check>> = {
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
      refused(t, await a('POST /notes/first', { body: { title: 'y' } }), 409, 'CONFLICT', 'the id is taken')
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

  'creates documents with ids of their own': {
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

  'merges with `merge`, and makes a document that is not there': {
    async run (t, { a }) {
      t.same(await bodyOf(a('PUT /merged/m', { body: { a: 1, b: { c: 2 } } })), [200, { id: 'm', a: 1, b: { c: 2 } }])
      t.same(await bodyOf(a('PUT /merged/m', { body: { b: { d: 3 }, e: [1] } })), [200, { id: 'm', a: 1, b: { d: 3 }, e: [1] }])
      t.same(await bodyOf(a('GET /notes/m')), [200, { id: 'm', a: 1, b: { d: 3 }, e: [1] }])
      t.same(await bodyOf(a('PUT /merged/empty', { body: {} })), [200, { id: 'empty' }])
      t.same(await bodyOf(a('GET /notes/empty')), [200, { id: 'empty' }])
      for (const id of ['m', 'empty']) await a(`DELETE /notes/${id}`)
    }
  },

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

  'filters by paths into fields': {
    gap: 'paths into fields',
    run: async (t, { a }) => {
      t.same(await idsOf(a, '/inside'), ['n1'])
    }
  },

  'filters by groups in groups': {
    gap: 'nested filters',
    run: async (t, { a }) => {
      t.same(await idsOf(a, '/nested'), ['n2'])
    }
  },

  'filters by ids': {
    gap: 'ids in filters and order',
    async run (t, { a }) {
      t.same(await idsOf(a, '/by-id?x=n1,n3'), ['n1', 'n3'])
      t.same(await idsOf(a, '/by-id?x=a%2Fb,..,__x__'), [], 'texts that are no ids')
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

  'answers pages in order, with a total': {
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
      t.match((await a('GET /notes?limit=1000')).body['pagination'], { limit: 100 }, 'no page is larger than `pagination.maxLimit`')
      for (const page of ['limit=-1', 'limit=x', 'offset=1.5']) refused(t, await a(`GET /notes?${page}`), 400, 'VALIDATION_FAILED', page)
    }
  },

  'answers later pages': {
    gap: 'offset',
    async run (t, { a }) {
      t.match((await a('GET /notes?offset=2')).body, { data: [{ rank: 3 }], pagination: { limit: 20, offset: 2, total: 3 } })
      t.match((await a('GET /notes?offset=9')).body, { data: [], pagination: { limit: 20, offset: 9, total: 3 } })
    }
  },

  'answers the fields of `select`': {
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
  },

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
      refused(t, await a('GET /notes/new'), 404, 'NOT_FOUND', 'the first write is undone')
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

  'keeps tenants apart, whatever the id and the body': {
    async run (t, { a, b }) {
      await b('PUT /notes/n1', { body: { kind: 'of b' } })
      await a('PATCH /notes/n1', { body: { kind: 'of a', tenant_id: 'b', tenant: 'b' } })
      t.same(await bodyOf(b('GET /notes/n1')), [200, { id: 'n1', kind: 'of b' }])
      t.match((await b('GET /notes')).body.data, [], 'the list of b has no document with a rank')
      t.same(await idsOf(b, '/eq?x=of%20b'), ['n1'])
      t.same(await idsOf(a, '/eq?x=of%20b'), [])
      refused(t, await b('GET /notes/n2'), 404, 'NOT_FOUND', 'a document of a')
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

  'refuses the same bodies': {
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

  'gives types that JSON lacks the same forms': {
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
  },

  'starts a list whose pages follow a cursor': {
    gap: 'ids in filters and order',
    async run (t, { a }) {
      await fillList(a)
      t.match((await a('GET /pages?limit=2')).body, { data: [{ id: 'a' }, { id: 'd' }], pagination: { limit: 2, next: /^[\w-]+$/ } })
      t.match((await a('GET /pages?limit=5')).body['pagination'], { limit: 5, next: null }, 'no document follows')
      t.same((await a('GET /pages-filtered?x=7')).body, { data: [], pagination: { limit: 20, next: null } })
      refused(t, await a('GET /pages?limit=0'), 400, 'VALIDATION_FAILED', 'no document to continue after')
      await emptyList(a)
    }
  },

  'continues after a cursor, ties by the id': {
    gap: 'cursors',
    async run (t, { a }) {
      await fillList(a)
      t.same(await walk(a, '/pages', 2), [['a', 'd'], ['b', 'c'], ['e']])
      t.same(await walk(a, '/pages', 1), [['a'], ['d'], ['b'], ['c'], ['e']])
      t.same(await walk(a, '/pages-back', 2), [['e', 'c'], ['b', 'd'], ['a']])
      t.same(await walk(a, '/pages-by-id', 2), [['a', 'b'], ['c', 'd'], ['e']])
      t.same(await walk(a, '/pages-typed', 1), [['a'], ['d'], ['b'], ['c'], ['e']], 'timestamps, large integers, decimals and null')
      t.same(await walk(a, '/pages-filtered?x=2', 2), [['b', 'c'], ['e']])
      await emptyList(a)
    }
  },

  'neither repeats nor loses documents where others change between pages': {
    gap: 'cursors',
    async run (t, { a }) {
      await fillList(a)
      const { next } = await pageAt(a, '/pages', 3, null)
      await a('DELETE /listed/b')
      await a('PUT /listed/a', { body: { group: 3 } })
      await a('PUT /listed/bb', { body: { group: 2 } })
      t.same((await pageAt(a, '/pages', 9, next)).ids, ['bb', 'c', 'e', 'a'], 'the document that the cursor names is gone')
      await emptyList(a)
    }
  },

  'refuses cursors of other lists, orders and tenants': {
    async run (t, { a, b }) {
      await fillList(a)
      const { next } = await pageAt(a, '/pages', 2, null)
      const tag = Buffer.from(String(next), 'base64url').toString().slice(0, 16)
      const made = (text: string): string => Buffer.from(tag + text).toString('base64url')
      for (const target of ['/pages-back', '/pages-by-id', '/pages-typed', '/pages-filtered']) {
        refused(t, await a(`GET ${target}?cursor=${next}`), 400, 'VALIDATION_FAILED', target)
      }
      refused(t, await b(`GET /pages?cursor=${next}`), 400, 'VALIDATION_FAILED', 'of another tenant')
      for (
        const text of ['', '[]', '["1"]', '["1",null]', '["1","a","b"]', '["no JSON","a"]', '[1,"a"]', '["\\"\\\\u0000\\"","a"]', '["1","\\u0000"]',
          '["{\\"$timestamp\\":\\"never\\"}","a"]']
      ) refused(t, await a(`GET /pages?cursor=${made(text)}`), 400, 'VALIDATION_FAILED', text)
      for (const cursor of ['', 'x', '%00', 'a'.repeat(5000)]) {
        refused(t, await a(`GET /pages?cursor=${cursor}`), 400, 'VALIDATION_FAILED', cursor.slice(0, 20))
      }
      await emptyList(a)
    }
  }
}

/** Documents in the order of their groups; those of one group differ by their ids alone. */
const listed = { e: 2, d: 1, c: 2, b: 2, a: 1 } as const

async function fillList (ask: Ask): Promise<void> {
  for (const [id, group] of Object.entries(listed)) {
    const deep = { at: { $timestamp: `2026-01-0${group}T00:00:00.000001Z` } }
    // A double has one value for the first two.
    const n = { a: '9007199254740993', b: '9007199254740992', c: '0.1', d: '-1', e: 'null' }[id] ?? '0'
    await ask(`PUT /listed/${id}`, { raw: `{"group":${group},"deep":${JSON.stringify(deep)},"n":${n}}` })
  }
}

async function emptyList (ask: Ask): Promise<void> {
  for (const id of [...Object.keys(listed), 'bb']) await ask(`DELETE /listed/${id}`)
}

interface Pages {
  readonly ids: readonly unknown[]
  readonly next: string | null
}

async function pageAt (ask: Ask, target: string, limit: number, cursor: string | null): Promise<Pages> {
  const { status, body, text } = await ask(`GET ${target}${target.includes('?') ? '&' : '?'}limit=${limit}${cursor === null ? '' : `&cursor=${cursor}`}`)
  if (status !== 200) throw new Error(`${target} answered ${status}: ${text}`)
  const { pagination } = body
  const next: unknown = Object(pagination).next
  return { ids: body.data?.map(({ id }) => id) ?? [], next: typeof next === 'string' ? next : null }
}

/** The ids of each page until the last one. */
async function walk (ask: Ask, target: string, limit: number): Promise<ReadonlyArray<readonly unknown[]>> {
  const found: Array<readonly unknown[]> = []
  let cursor: string | null = null
  do {
    const { ids, next } = await pageAt(ask, target, limit, cursor)
    found.push(ids)
    cursor = next
  } while (cursor !== null && found.length < 10)
  return found
}

async function bodyOf (answer: ReturnType<Ask>): Promise<[number, unknown]> {
  const { status, body } = await answer
  return [status, body]
}

const ran: string[] = []

for (const [name, open] of Object.entries(stores)) {
  test(name, async (t) => {
    const { database, hasGaps } = await open(t)
    const app = await testServer(t, storesDocument(database), { tenants: ['a', 'b'] })
    const callers = { a: caller(t, app, { tenant: 'a' }), b: caller(t, app, { tenant: 'b' }) }
    let count = 0
    for (const [title, { gap, run }] of Object.entries(checks)) {
      const isSkipped = hasGaps && gap !== undefined
      if (!isSkipped) count++
      await t.test(title, { skip: isSkipped && `${needsGoogle} (${gap})` }, (t) => run(t, callers))
    }
    ran.push(`${name}: ${count} of ${Object.keys(checks).length} checks`)
  })
}

test('the record', async (t) => {
  for (const line of ran) t.comment(line)
  t.equal(ran.length, Object.keys(stores).length)
})
