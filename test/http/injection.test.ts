/** SQL, templates and patterns in every place that a caller can reach: stored and compared literally, never evaluated. */
import { type Test, test } from 'tap'
import { forEachEngine } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { testSecret } from '../helpers/tokens.js'
import { caller, refused } from './caller.js'
import { everyKind, numberedTenants } from './document.js'

const sql = [
  "' or '1'='1",
  "'; drop table notes; --",
  '"; drop table notes; --',
  "\\'; drop table notes; --",
  "x') union select * from tenantry.documents --",
  "'||pg_sleep(10)||'",
  '1; select pg_sleep(10)',
  '$1',
  '$$; delete from notes; $$',
  "{a,b}'::text[]; drop table notes; --",
  "'::jsonb; drop table notes; --",
  '/* */ or true --',
  'id" from notes; drop table notes; --'
]

/* eslint-disable no-template-curly-in-string -- the old form of templates */
const templates = [
  '{{env.JWT_SECRET}}',
  '{{ env.JWT_SECRET }}',
  '{{env.PATH || "x"}}',
  '${PATH}',
  '${JWT_SECRET}',
  '{{secret:api_key}}',
  '{{secret.api_key}}',
  '{{auth.sub}}',
  '{{tenant.id}}',
  '{{body}}',
  '{{query.q}}',
  '{{results.note.id}}',
  '{{uuid()}}',
  '{{now()}}',
  '{{',
  '}}',
  '{{{{env.JWT_SECRET}}}}',
  '{{constructor.constructor("return process")()}}',
  '${process.env}',
  '<%= 1 %>',
  '#{1}',
  '{{body.__proto__}}'
]
/* eslint-enable no-template-curly-in-string */

test('injection', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, everyKind, {
      engine,
      tenants: numberedTenants,
      env: { JWT_SECRET: testSecret, PATH: '/a/path/of/the/server' }
    })
    let tenants = 0
    const asTenant = (t: Test) => caller(t, app, { tenant: `tenant-${++tenants}` })

    await t.test('a text is stored and returned unchanged', async (t) => {
      const ask = asTenant(t)
      for (const text of [...sql, ...templates]) {
        const created = await ask('POST /notes', {
          body: { title: text, body: text, tags: [text, text], extra: { [text]: { [text]: text } } }
        })
        const fields = [text, text, [text, text], { [text]: { [text]: text } }]
        t.strictSame([created.status, ...['title', 'body', 'tags', 'extra'].map((name) => created.body[name])], [201, ...fields], text)
        const id = String(created.body['id'])
        const read = (await ask(`GET /notes/${id}`)).body
        t.strictSame(['title', 'body', 'tags', 'extra'].map((name) => read[name]), fields)
        t.strictSame((await ask(`PATCH /notes/${id}`, { body: { body: `${text}${text}` } })).body['body'], `${text}${text}`)
        const many = await ask('POST /notes', { body: [{ title: text, tags: [text] }, { title: text, extra: text }] })
        t.strictSame(many.body.data?.map(({ title }) => title), [text, text])
        t.match((await ask('POST /mapped', { body: { name: text, by: text, extra: { deep: [text] } } })).body, {
          title: text,
          body: `by ${text}`,
          extra: { deep: [text] }
        })
        const pair = (await ask('POST /pairs', { body: { name: text, title: text } })).body
        t.match(pair, { person: { name: text }, note: { title: text } })
        const document = (await ask('POST /docs', { body: { name: text, [text]: { [text]: [text] } } })).body
        t.match(document, { name: text, [text]: { [text]: [text] } })
        t.match((await ask(`GET /docs/${String(document['id'])}`)).body, { name: text })
        t.strictSame((await ask('POST /echo', { body: { text } })).body, { body: { text }, text: `you said ${text}` })
        t.strictSame(
          (await ask(`GET /echo/${encodeURIComponent(text)}?q=${encodeURIComponent(text)}`, { headers: { 'user-agent': text } })).body,
          { word: text, q: text, text: `you said ${text}`, agent: text, tenant: `tenant-${tenants}` }
        )
      }
    })

    await t.test('a text in a filter matches only itself', async (t) => {
      const ask = asTenant(t)
      const texts = [...sql, ...templates]
      await ask('POST /notes', { body: [{ title: 'plain', rank: 1 }, ...texts.map((title) => ({ title }))] })
      await ask('POST /docs', { body: [{ name: 'plain' }, ...texts.map((name) => ({ name }))] })
      for (const text of texts) {
        const encoded = encodeURIComponent(text)
        t.strictSame((await ask(`GET /notes?title=${encoded}`)).body.data?.map(({ title }) => title), [text])
        t.strictSame((await ask(`GET /docs?name=${encoded}`)).body.data?.map(({ name }) => name), [text])
        t.strictSame((await ask('GET /by-header', { headers: { 'x-title': text } })).body.data?.map(({ title }) => title), [text])
        t.strictSame((await ask(`GET /cached/notes?title=${encoded}`)).body.data?.map(({ title }) => title), [text])
        t.strictSame((await ask(`GET /cached/key?k=${encoded}`)).body.data?.map(({ title }) => title), [text], 'in a cache key')
        t.strictSame((await ask(`PATCH /by-title/${encoded}`, { body: { body: text } })).body.data?.map(({ body }) => body), [text])
      }
      t.equal((await ask('GET /notes?word=plain')).body.data?.length, 0)
    })

    await t.test('a text in place of another type or of a name is rejected', async (t) => {
      const ask = asTenant(t)
      await ask('POST /notes', { body: { title: 'plain' } })
      for (const text of sql) {
        const encoded = encodeURIComponent(text)
        for (
          const target of [
            `GET /notes/${encoded}`,
            `DELETE /notes/${encoded}`,
            `GET /notes?rank=${encoded}`,
            `GET /notes?before=${encoded}`,
            `GET /notes?ids=${encoded}`,
            `GET /notes?done=${encoded}`
          ]
        ) {
          t.equal((await ask(target)).status, 400, target)
        }
        for (const name of ['limit', 'offset']) refused(t, await ask(`GET /notes?${name}=${encoded}`), 400, 'VALIDATION_FAILED', name)
        refused(t, await ask(`PATCH /notes/${encoded}`, { body: { title: 'x' } }), 400, 'VALIDATION_FAILED')
        refused(t, await ask(`PUT /notes/${encoded}`, { body: { title: 'x' } }), 400, 'VALIDATION_FAILED')
        refused(t, await ask('POST /notes', { body: { title: 'x', [text]: 'y' } }), 400, 'VALIDATION_FAILED', 'as a column')
        refused(t, await ask('POST /notes', { body: [{ title: 'x', [text]: 'y' }] }), 400, 'VALIDATION_FAILED', 'as a column of many')
        // A route without a declared query string ignores these.
        for (const name of ['order', 'select', 'filter', 'or', 'id', 'columns', 'on_conflict', text]) {
          const { status, body } = await ask(`GET /notes?${encodeURIComponent(name)}=${encoded}`)
          t.strictSame([status, body.data?.length], [200, 1], `${name}=${text}`)
        }
        refused(t, await ask(`GET /strict?${encoded}=1`), 400, 'VALIDATION_FAILED', 'as the name of a parameter')
      }
      t.equal((await ask('GET /notes')).body.data?.length, 1, 'the table still exists, and nothing was written to it')
    })

    await t.test('like takes a pattern, and its value is still never SQL', async (t) => {
      const ask = asTenant(t)
      await ask('POST /notes', { body: ['100%', '1000', 'a_b', 'axb', 'back\\slash', 'x'].map((title) => ({ title })) })
      const titles = async (query: string) => (await ask(`GET /notes?${query}`)).body.data?.map(({ title }) => title)
      t.strictSame(await titles('like=%25'), ['100%', '1000', 'a_b', 'axb', 'back\\slash', 'x'].sort(), 'the value of `like` is a pattern')
      t.strictSame(await titles('like=a%5C_b'), ['a_b'])
      for (const target of ['GET /notes?like=abc%5C', 'GET /notes?like=%5C', 'GET /docs?like=x%5C%5C%5C']) {
        refused(t, await ask(target), 400, 'VALIDATION_FAILED', `${target}, a pattern that ends in its escape`)
      }
      t.strictSame(await titles('like=%25%5C%5C%25'), ['back\\slash'])
    })

    await t.test('names of Object.prototype have no meaning', async (t) => {
      const ask = asTenant(t)
      const id = String((await ask('POST /notes', { body: { title: 'x', extra: { constructor: 1, toString: 2 } } })).body['id'])
      t.strictSame((await ask(`GET /notes/${id}`)).body['extra'], { constructor: 1, toString: 2 })
      for (
        const query of [
          '__proto__=1',
          'constructor=1',
          '__proto__[admin]=1',
          'constructor.prototype.admin=1',
          'hasOwnProperty=1',
          'toString=1&toString=2'
        ]
      ) {
        t.equal((await ask(`GET /notes?${query}`)).status, 200, query)
        refused(t, await ask(`GET /strict?${query}`), 400, 'VALIDATION_FAILED', query)
      }
      t.equal(
        (await ask('POST /echo', { raw: '{"constructor":{"name":"x"}}' })).text,
        '{"body":{"constructor":{"name":"x"}},"text":"you said "}'
      )
      t.equal(Reflect.get({}, 'admin'), undefined)
    })
  }))
