/** Unusual limits, offsets and other query strings. */
import { test } from 'tap'
import { postgresSection } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'
import { everyKind } from './document.js'

const lists = ['/notes', '/people', '/countries', '/docs', '/computed', '/short', '/cached/notes', '/cached/docs']

test('pages', async (t) => {
  const engine = await postgresSection(t)
  const ask = caller(
    t,
    await testServer(t, { ...everyKind, pagination: { defaultLimit: 3, maxLimit: 7, defaultOffset: 0 } }, { engine, tenants: ['a'] }),
    { tenant: 'a' }
  )
  await ask('POST /notes', { body: Array.from({ length: 12 }, (_, index) => ({ title: String.fromCharCode(97 + index), rank: index })) })

  await t.test('a limit or offset that is not a whole number from 0 is rejected on every list', async (t) => {
    const wrong = [
      '-1',
      '-0.5',
      '1.5',
      'x',
      '',
      '%20',
      'NaN',
      'Infinity',
      '-Infinity',
      '1e400',
      '1e99',
      '2147483648',
      '99999999999999999999',
      '1;2',
      '1,2',
      'null',
      'true',
      '%00',
      '١',
      '1%20or%201=1',
      '%2B',
      '--1',
      '0x',
      '0x10',
      '+5',
      '5+',
      '1_0',
      '[1]',
      '{}'
    ]
    for (const list of lists) {
      for (const name of ['limit', 'offset']) {
        for (const value of wrong) {
          refused(t, await ask(`GET ${list}?${name}=${value}`), 400, 'VALIDATION_FAILED', `${list} ${name} ${value}`)
        }
        refused(t, await ask(`GET ${list}?${name}=1&${name}=2`), 400, 'VALIDATION_FAILED', `${list} ${name} twice`)
      }
    }
    const { body } = await ask('GET /notes?limit=-1&offset=x')
    t.strictSame(body.details?.map(({ path }) => path), ['/query/limit', '/query/offset'], 'both parameters are named')
  })

  await t.test('a large limit is clamped, and a page past the end is empty', async (t) => {
    const page = async (query: string) => {
      const { body } = await ask(`GET /notes?${query}`)
      return [body.data?.map(({ title }) => title).join(''), body['pagination']]
    }
    t.strictSame(await page(''), ['abc', { limit: 3, offset: 0, total: 12 }])
    t.strictSame(await page('limit=2147483647'), ['abcdefg', { limit: 7, offset: 0, total: 12 }])
    t.strictSame(await page('limit=8&offset=10'), ['kl', { limit: 7, offset: 10, total: 12 }])
    t.strictSame(await page('limit=0'), ['', { limit: 0, offset: 0, total: 12 }])
    t.strictSame(await page('limit=0&offset=5'), ['', { limit: 0, offset: 5, total: 12 }])
    t.strictSame(await page('offset=12'), ['', { limit: 3, offset: 12, total: 12 }])
    t.strictSame(await page('offset=2147483647'), ['', { limit: 3, offset: 2147483647, total: 12 }])
    t.strictSame(await page('limit=3&offset=0&LIMIT=x&limit%5B%5D=9'), ['abc', { limit: 3, offset: 0, total: 12 }])
    t.strictSame((await ask('GET /docs?offset=2147483647&limit=7')).body['pagination'], { limit: 7, offset: 2147483647, total: 0 })
  })

  await t.test('filters accept values that match their column, also repeated', async (t) => {
    for (
      const query of [
        'rank=x',
        'rank=1.5',
        'rank=99999999999',
        'ids=x',
        'ids=1,2',
        'before=yesterday-ish',
        'before=2026-02-30',
        'done=maybe',
        'extra=%00',
        'title=%00',
        'q=%00',
        'tag=%00'
      ]
    ) {
      t.match(await ask(`GET /notes?${query}`), { status: 400 }, query)
    }
    for (const query of ['rank=', 'title=', 'tag=', 'ids=', 'q=', 'word=']) {
      const { status } = await ask(`GET /notes?${query}`)
      t.ok([200, 400].includes(status), `${query} ${status}`)
    }
    for (const query of ['rank=1&rank=2', 'title=a&title=b', 'q=a&q=b', 'before=2026-01-01&before=2026-01-02', 'done=true&done=false']) {
      const { status } = await ask(`GET /notes?${query}`)
      t.ok([200, 400].includes(status), `${query} ${status}`)
    }
    const ids = Array.from({ length: 300 }, (_, index) => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`).join(',')
    t.match((await ask(`GET /notes?ids=${ids}`)).body.data, { length: 0 }, '300 ids')
    t.match(
      await ask(`GET /notes?${Array.from({ length: 1500 }, (_, index) => `p${index}=1`).join('&')}`),
      { status: 200 },
      '1500 parameters that no route reads'
    )
    const many = await ask(`GET /strict?${Array.from({ length: 1500 }, (_, index) => `p${index}=1`).join('&')}`)
    refused(t, many, 400, 'VALIDATION_FAILED', 'where they are not allowed')
    t.equal(many.body.details?.length, 50, 'at most 50 are reported')
    refused(t, await ask('GET /strict?page=0'), 400, 'VALIDATION_FAILED', 'below a minimum')
    refused(t, await ask('GET /strict?page=1&page=2'), 400, 'VALIDATION_FAILED', 'twice')
    refused(t, await ask(`GET /strict?q=${'x'.repeat(21)}`), 400, 'VALIDATION_FAILED', 'over a maxLength')
    t.match(await ask('GET /strict?page=2'), { status: 200 })
  })

  await t.test('hard must be true or false', async (t) => {
    const id = String((await ask('POST /notes', { body: { title: 'z' } })).body['id'])
    for (const value of ['yes', '1', '', 'TRUE', 'true&hard=true']) {
      refused(t, await ask(`DELETE /notes/${id}?hard=${value}`), 400, 'VALIDATION_FAILED', value)
    }
    t.match((await ask(`DELETE /notes/${id}?hard=false`)).body, { success: true, softDeleted: true })
    refused(t, await ask(`DELETE /notes/${id}`), 404, 'NOT_FOUND', 'again')
    t.match((await ask(`DELETE /notes/${id}?hard=true`)).body, { success: true, softDeleted: undefined }, 'hard deletion removes a soft-deleted row')
    refused(t, await ask(`DELETE /notes/${id}?hard=true`), 404, 'NOT_FOUND', 'once')
  })
})
