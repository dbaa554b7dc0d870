/** Lists whose pages follow a cursor. */
import type { Ask } from '../../../http/caller.js'
import { refused } from '../../../http/caller.js'
import type { Check } from './check.js'

export const cursors: Readonly<Record<string, Check>> = {
  'starts a list whose pages follow a cursor': {
    gap: 'ids in filters and order',
    async run (t, { a }) {
      await fillList(a)
      t.match((await a('GET /pages?limit=2')).body, { data: [{ id: 'a' }, { id: 'd' }], pagination: { limit: 2, next: /^[\w-]+$/ } })
      t.match((await a('GET /pages?limit=5')).body['pagination'], { limit: 5, next: null }, 'there is no next page')
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

  'neither repeats nor loses documents if others change between pages': {
    gap: 'cursors',
    async run (t, { a }) {
      await fillList(a)
      const { next } = await pageAt(a, '/pages', 3, null)
      await a('DELETE /listed/b')
      await a('PUT /listed/a', { body: { group: 3 } })
      await a('PUT /listed/bb', { body: { group: 2 } })
      t.same((await pageAt(a, '/pages', 9, next)).ids, ['bb', 'c', 'e', 'a'], "the cursor's document was deleted")
      await emptyList(a)
    }
  },

  'rejects cursors of other lists, orders and tenants': {
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

/** Documents in the order of their groups; documents of one group differ only by id. */
const listed = { e: 2, d: 1, c: 2, b: 2, a: 1 } as const

async function fillList (ask: Ask): Promise<void> {
  for (const [id, group] of Object.entries(listed)) {
    const deep = { at: { $timestamp: `2026-01-0${group}T00:00:00.000001Z` } }
    // As doubles, the first two are equal.
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
