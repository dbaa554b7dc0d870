/** Bodies that cannot be parsed, and values that no column accepts. */
import { gzipSync } from 'node:zlib'
import { type Test, test } from 'tap'
import { postgresSection } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'
import { everyKind, numberedTenants } from './document.js'

const nested = (depth: number): string => '{"a":'.repeat(depth) + '1' + '}'.repeat(depth)

test('invalid bodies', async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, everyKind, { engine, tenants: numberedTenants })
  let tenants = 0
  const asTenant = (t: Test) => caller(t, app, { tenant: `tenant-${++tenants}` })

  await t.test('a compressed body is refused with a message that names the header', async (t) => {
    const ask = asTenant(t)
    const reply = await ask('POST /echo', { raw: gzipSync('{"text":"x"}'), headers: { 'content-encoding': 'gzip' } })
    refused(t, reply, 415, 'MEDIA_TYPE_UNSUPPORTED', 'gzip')
    t.match(reply.body, { message: 'Send the body without Content-Encoding' })
  })

  await t.test('every route rejects a body that cannot be parsed', async (t) => {
    const ask = asTenant(t)
    const bodies: [what: string, raw: string | Buffer, status: number, code: string, type?: string][] = [
      ['empty', '', 400, 'BAD_REQUEST'],
      ['white space', '  \n', 400, 'BAD_REQUEST'],
      ['cut off', '{"title":"x"', 400, 'BAD_REQUEST'],
      ['two values', '{"title":"x"}{"title":"y"}', 400, 'BAD_REQUEST'],
      ['one comma too many', '{"title":"x",}', 400, 'BAD_REQUEST'],
      ['comments', '{/* hello */"title":"x"}', 400, 'BAD_REQUEST'],
      ['NaN', '{"rank":NaN}', 400, 'BAD_REQUEST'],
      ['a line break in a string', '{"title":"a\nb"}', 400, 'BAD_REQUEST'],
      ['a form', 'title=x', 400, 'BAD_REQUEST'],
      ['65 levels', nested(65), 400, 'BAD_REQUEST'],
      ['100,000 levels', '['.repeat(100_000), 400, 'BAD_REQUEST'],
      ['a prototype', '{"title":"x","__proto__":{"admin":true}}', 400, 'BAD_REQUEST'],
      ['a prototype, escaped', '{"title":"x","\\u005f_proto__":{"admin":true}}', 400, 'BAD_REQUEST'],
      ['a prototype below', '{"title":"x","extra":[{"__proto__":null}]}', 400, 'BAD_REQUEST'],
      ["a constructor's prototype", '{"title":"x","extra":{"constructor":{"prototype":{"admin":true}}}}', 400, 'BAD_REQUEST'],
      ['invalid UTF-8', Buffer.from([...Buffer.from('{"title":"'), 0xff, ...Buffer.from('"}')]), 400, 'BAD_REQUEST'],
      ['a truncated UTF-8 character', Buffer.from([...Buffer.from('{"title":"'), 0xe2, 0x82, ...Buffer.from('"}')]), 400, 'BAD_REQUEST'],
      ['UTF-16', Buffer.from('{"title":"x"}', 'utf16le'), 400, 'BAD_REQUEST'],
      ['more than 1 MB', JSON.stringify({ title: 'x'.repeat(1_048_576) }), 413, 'BODY_TOO_LARGE'],
      ['plain text', '{"title":"x"}', 415, 'MEDIA_TYPE_UNSUPPORTED', 'text/plain'],
      ['a form with its media type', 'title=x', 415, 'MEDIA_TYPE_UNSUPPORTED', 'application/x-www-form-urlencoded'],
      ['a merge patch', '{"title":"x"}', 415, 'MEDIA_TYPE_UNSUPPORTED', 'application/merge-patch+json'],
      ['no media type', '{"title":"x"}', 415, 'MEDIA_TYPE_UNSUPPORTED', ''],
      ['a broken media type', '{"title":"x"}', 415, 'MEDIA_TYPE_UNSUPPORTED', 'json']
    ]
    for (const target of ['POST /notes', 'POST /checked', 'POST /docs', 'PUT /docs/one', 'POST /echo', 'PATCH /notes/1']) {
      for (const [label, raw, status, code, type] of bodies) {
        refused(t, await ask(target, { raw, ...(type !== undefined && { type }) }), status, code, `${target} ${label}`)
      }
    }
    t.match(
      await ask('POST /echo', { raw: '{"body":1}', type: 'APPLICATION/JSON; charset=UTF-8' }),
      { status: 200 },
      'media types are case-insensitive'
    )
    t.match(await ask('POST /echo', { raw: nested(64) }), { status: 200 }, '64 levels are accepted')
    for (
      const [text, further] of [['x', ''], ['4111111111111111', ''], ['................', ''], ['x', ',"n":9007199254740993']] as const
    ) {
      t.match(
        await ask('POST /echo', { raw: `\uFEFF{"text":"${text}"${further}}` }),
        { status: 200, body: { text: `you said ${text}` } },
        'a byte order mark is skipped'
      )
    }
    for (const text of ['x', '4111111111111111']) {
      refused(t, await ask('POST /echo', { raw: `\uFEFF\uFEFF{"text":"${text}"}` }), 400, 'BAD_REQUEST', 'a second mark is not')
    }
    t.equal(Object.hasOwn(Object.prototype, 'admin'), false)
  })

  await t.test('a body is an object, or for an insert an array of at most 1000', async (t) => {
    const ask = asTenant(t)
    for (const raw of ['null', '1', '"title"', 'true', '[1]', '[null]', '[[{"title":"x"}]]']) {
      for (const target of ['POST /notes', 'POST /docs', 'POST /checked', 'POST /notes/upsert']) {
        refused(t, await ask(target, { raw }), 400, 'VALIDATION_FAILED', `${target} ${raw}`)
      }
    }
    const id = String((await ask('POST /notes', { body: { title: 'x' } })).body['id'])
    for (const target of [`PATCH /notes/${id}`, 'PATCH /docs/1', 'PUT /docs/1']) {
      for (const raw of ['[]', '[{"title":"y"}]', 'null', '"title"']) {
        refused(t, await ask(target, { raw }), 400, 'VALIDATION_FAILED', `${target} ${raw}`)
      }
    }
    refused(t, await ask(`PATCH /notes/${id}`), 400, 'VALIDATION_FAILED', 'no body')
    const many = (count: number) => Array.from({ length: count }, (_, index) => ({ title: `note ${index}` }))
    for (const target of ['POST /notes', 'POST /notes/upsert', 'POST /docs', 'POST /checked']) {
      refused(t, await ask(target, { body: many(1001) }), 400, 'VALIDATION_FAILED', `${target} of 1001`)
      const response = await ask(target, { body: many(1000) })
      t.equal(response.body.data?.length, 1000, `${target} of 1000`)
      t.same((await ask(target, { body: [] })).body, { data: [] }, `${target} with an empty array`)
    }
    const mixed = [...many(2), { title: 'y', extra: { a: 1 } }, { title: 'z', rank: 'first' }]
    refused(t, await ask('POST /notes', { body: mixed }), 400, 'VALIDATION_FAILED', 'one wrong record of many')
    t.same((await ask('GET /notes?title=y')).body.data, [], 'nothing is written')
  })

  await t.test('unknown fields are rejected by name, unless the route allows them', async (t) => {
    const ask = asTenant(t)
    const strict = await ask('POST /checked', { body: { title: 'x', titel: 'y', extra: { color: 'red' } } })
    refused(t, strict, 400, 'VALIDATION_FAILED')
    t.strictSame(strict.body.details?.map(({ path, keyword }) => `${path} ${keyword}`).sort(), [
      '/body/extra/color additionalProperties',
      '/body/titel additionalProperties'
    ])
    t.match(strict.body.details?.find(({ path }) => path === '/body/titel')?.message, /did you mean "title"/)
    refused(
      t,
      await ask('POST /checked', { body: [{ title: 'x' }, { title: 'x', titel: 'y' }] }),
      400,
      'VALIDATION_FAILED',
      'in one of many'
    )
    for (const target of ['POST /notes', 'POST /open']) {
      for (
        const name of [
          'titel',
          'constructor',
          'toString',
          'hasOwnProperty',
          'Title',
          'title ',
          '',
          '0',
          'title"; drop table notes; --',
          'deleted_at\0'
        ]
      ) {
        refused(t, await ask(target, { body: { title: 'x', [name]: 'y' } }), 400, 'VALIDATION_FAILED', `${target} ${name}`)
      }
    }
    t.match(
      await ask('POST /open', { body: { title: 'x', rank: 3 } }),
      { status: 201, body: { rank: 3 } },
      'an existing column that is not declared'
    )
    const long = await ask('POST /notes', {
      body: Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`field ${index} ${'x'.repeat(100)}`, 1]))
    })
    refused(t, long, 400, 'VALIDATION_FAILED', '5000 unknown fields')
    refused(t, await ask('GET /strict?q=a&other=1'), 400, 'VALIDATION_FAILED', 'in a query string')
  })

  await t.test('a value that no column accepts is a 400, never a 500', async (t) => {
    const ask = asTenant(t)
    const huge = '9'.repeat(400)
    const wrong: Record<string, string[]> = {
      title: ['null', '{}', '[]', '["x"]', '{"a":1}', '"a\\u0000b"'],
      body: ['{}', '[1]', '"\\u0000"'],
      small: ['32768', '-32769', '1.5', '"x"', '{}', '[]', '[1]', 'true', '""', '1e3000', '" "'],
      rank: [
        '2147483648',
        '-2147483649',
        '1e20',
        '0.1',
        '"2147483648"',
        '"1; drop table notes"',
        'false',
        '{}',
        '1e400',
        '"NaN"',
        '"0x10"'
      ],
      big: ['9223372036854775808', '12345678901234567890', '"9223372036854775808"', '"-9223372036854775809"', '1.5', huge],
      price: ['"abc"', '"1,5"', '{}', 'true', '1e400', '"1e999999"', '""'],
      ratio: ['1e400', '-1e400', '"1e999"', '"x"', '[1]'],
      done: ['1', '0', '"yes"', '"t"', '{}', '[]', '""'],
      due: [
        '"2026-02-30"',
        '"2026-13-01"',
        '"99999999-01-01"',
        '"yesterday or so"',
        '"0000-00-00"',
        '{}',
        'true',
        '"2026-01-01\\u0000"',
        '""'
      ],
      at: ['"2026-01-31T25:00:00Z"', '"2026-01-31T12:00:00+99:00"', '"300000-01-01T00:00:00Z"', '1e20', '"x"', '[]'],
      tags: ['"x"', '{}', '[{}]', '[["a"],["b","c"]]', '1', '["\\u0000"]', '[["a"],"b"]'],
      numbers: ['[1.5]', '["x"]', '[2147483648]', '1', '[[1],[2,3]]', '[true]'],
      extra: ['"\\u0000"', '{"\\u0000":1}', '"\\ud800"', '{"a":["x\\udc00"]}'],
      bytes: ['"\\\\xzz"', '"\\\\777"', '{}'],
      address: ['"999.1.1.1"', '"localhost"', '{}', '1'],
      author_id: ['"x"', '"00000000-0000-0000-0000-00000000000g"', '1', '{}', 'true', '""'],
      id: ['"x"', '1', '""', '[]', '{}']
    }
    const keep = String((await ask('POST /notes', { body: { title: 'keep' } })).body['id'])
    for (const [column, values] of Object.entries(wrong)) {
      for (const value of values) {
        const raw = column === 'title' ? `{"title":${value}}` : `{"title":"x","${column}":${value}}`
        for (
          const [target, text] of [['POST /notes', raw], ['POST /notes', `[${raw},{"title":"y"}]`], ['POST /notes', `[${raw},${raw}]`], [
            'POST /notes/upsert',
            raw
          ], [`PATCH /notes/${keep}`, raw]] as const
        ) {
          const { status } = await ask(target, { raw: text })
          if (status !== 400) t.equal(status, 400, `${target} ${text}`)
        }
      }
    }
    const { data } = (await ask('GET /notes')).body
    t.strictSame(data?.map(({ title, done, extra }) => [title, done, extra]), [['keep', false, null]], 'nothing was written')
    refused(t, await ask('POST /notes', { body: { rank: 1 } }), 400, 'CONSTRAINT_VIOLATED', 'a column that must have a value')
    refused(t, await ask(`PATCH /notes/${keep}`, { body: { title: null } }), 400, 'CONSTRAINT_VIOLATED', 'null in that column')
    refused(
      t,
      await ask('POST /notes', { body: { title: 'x', author_id: '00000000-0000-4000-8000-000000000000' } }),
      400,
      'CONSTRAINT_VIOLATED',
      'a reference without a target'
    )
    for (const raw of ['{"name":"\\u0000"}', '{"\\u0000":1}', '{"a":{"b":["\\ud800"]}}', '[{"name":"a"},{"name":"\\u0000"}]']) {
      refused(t, await ask('POST /docs', { raw }), 400, 'VALIDATION_FAILED', `a document of ${raw}`)
      if (raw.startsWith('{')) refused(t, await ask('PUT /docs/one', { raw }), 400, 'VALIDATION_FAILED', `a document of ${raw}`)
    }
    t.strictSame(
      (await ask('POST /docs', { raw: '[{"name":"a"},{"name":"b","other":{"deep":"\\u0000"}}]' })).body.details?.map(({ path }) => path),
      ['/body/1/other']
    )
    refused(t, await ask('POST /docs', { body: { id: 'mine' } }), 400, 'VALIDATION_FAILED', 'an id in a document')
    t.same((await ask('GET /docs')).body.data, [])
  })

  await t.test('a text that is too long for an index is a 400; a text that fits is accepted', async (t) => {
    const ask = asTenant(t)
    // Random text: PostgreSQL would compress a repetitive one in its index.
    const long = Array.from({ length: 9000 }, (_, index) => String.fromCharCode(0x4e00 + (index * 7919) % 20_000)).join('')
    refused(t, await ask('POST /notes', { body: { title: 'x', code: long } }), 400, 'INVALID_VALUE')
    t.match(await ask('POST /notes', { body: { title: 'x', body: long } }), { status: 201, body: { body: long } })
    const texts = [
      '',
      ' ',
      '\t\r\n',
      'ünïcödé 🎉',
      '\u202e\u200b\ufeff',
      '\\',
      "'",
      '"',
      '\\x00',
      '{}',
      '{a,b}',
      'NULL',
      '%',
      '_',
      '$1',
      '??',
      '\u007f\u0001'
    ]
    for (const text of texts) {
      const one = await ask('POST /notes', { body: { title: text, body: text, tags: [text], extra: { [text]: text } } })
      t.match(one, { status: 201 }, JSON.stringify(text))
      t.strictSame([one.body['title'], one.body['body'], one.body['tags'], one.body['extra']], [text, text, [text], { [text]: text }])
      const many = await ask('POST /notes', { body: [{ title: text, tags: [text, null], extra: text }, { title: text }] })
      t.strictSame(many.body.data?.map(({ title, tags, extra }) => [title, tags, extra]), [[text, [text, null], text], [text, null, null]])
      t.match((await ask('POST /docs', { body: { name: text, [text || 'empty']: 1 } })).body, { name: text })
    }
  })

  await t.test('of two members with the same name, the last one is validated and used', async (t) => {
    const ask = asTenant(t)
    t.match(await ask('POST /checked', { raw: '{"title":"one","title":"two"}' }), { status: 201, body: { title: 'two' } })
    refused(t, await ask('POST /checked', { raw: '{"rank":1,"title":"x","rank":99}' }), 400, 'VALIDATION_FAILED')
    refused(t, await ask('POST /notes', { raw: '{"title":"x","tenant_id":"a","tenant_id":"b"}' }), 403, 'FORBIDDEN')
  })

  await t.test('rules apply to the fields that they name, and bodies are never coerced', async (t) => {
    const ask = asTenant(t)
    const cases: [body: unknown, path: string, keyword: string][] = [
      [{}, '/body/title', 'required'],
      [{ title: 'x'.repeat(51) }, '/body/title', 'maxLength'],
      [{ title: 1 }, '/body/title', 'type'],
      [{ title: null }, '/body/title', 'type'],
      [{ title: 'x', rank: '1' }, '/body/rank', 'type'],
      [{ title: 'x', rank: -1 }, '/body/rank', 'minimum'],
      [{ title: 'x', rank: 1.5 }, '/body/rank', 'type'],
      [{ title: 'x', done: 'true' }, '/body/done', 'type'],
      [{ title: 'x', done: 0 }, '/body/done', 'type'],
      [{ title: 'x', tags: 'a' }, '/body/tags', 'type'],
      [{ title: 'x', tags: ['a', 1] }, '/body/tags/1', 'type'],
      [{ title: 'x', tags: ['a', 'b', 'c', 'd'] }, '/body/tags', 'maxItems'],
      [{ title: 'x', extra: { colour: 'blue' } }, '/body/extra/colour', 'enum'],
      [{ title: 'x', extra: [] }, '/body/extra', 'type']
    ]
    for (const [body, path, keyword] of cases) {
      const response = await ask('POST /checked', { body })
      refused(t, response, 400, 'VALIDATION_FAILED', JSON.stringify(body))
      t.match(response.body, { error: 'Bad Request', message: 'Validation failed', details: [{ path, keyword }] })
    }
    refused(t, await ask('POST /checked'), 400, 'VALIDATION_FAILED', 'no body at all')
  })
})

test('a body that is not JSON is rejected with the position of its fault', async (t) => {
  const app = await testServer(t, { routes: [{ path: '/echo', method: 'post', response: { body: '{{body}}' } }] })
  const ask = caller(t, app)
  for (
    const [raw, place] of [['{text:"x"}', 'line 1, column 2'], ['{\n  "a": tru\n}', 'line 2, column 8'], [
      '{"a":1',
      'line 1, column 7'
    ]] as const
  ) {
    const response = await ask('POST /echo', { raw })
    refused(t, response, 400, 'BAD_REQUEST')
    t.equal(response.body['message'], `The body is not valid JSON: ${place}`)
  }
  t.equal(
    (await ask('POST /echo', { raw: '{"__proto__":{}}' })).body['message'],
    'The body contains the forbidden key "__proto__" or "constructor"'
  )
})

test('a json column takes no text that PostgreSQL cannot read', async (t) => {
  const columns = { id: { type: 'integer', primaryKey: true }, data: { type: 'json' } } as const
  const app = await testServer(t, {
    tables: { sheets: { tenantScoped: true, columns } },
    routes: [
      { method: 'post', path: '/sheets', queries: [{ table: 'sheets', operation: 'insert' }] },
      { method: 'patch', path: '/sheets/:id', queries: [{ table: 'sheets', operation: 'update', id: '{{params.id}}' }] }
    ]
  }, { engine: await postgresSection(t), tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme' })
  t.match(await ask('POST /sheets', { raw: String.raw`{"id":1,"data":"\\u0000 \u0001 \ud83d\ude00"}` }), { status: 201 })
  for (const data of [String.raw`"\u0000"`, String.raw`{"\u0000":1}`, String.raw`["\ud800"]`]) {
    for (const [target, raw] of [['POST /sheets', `{"id":2,"data":${data}}`], ['PATCH /sheets/1', `{"data":${data}}`]] as const) {
      const reply = await ask(target, { raw })
      refused(t, reply, 400, 'VALIDATION_FAILED', `${target} ${raw}`)
      t.match(reply.body.details, [{ message: /"data" must not contain the character NUL/ }])
    }
  }
})
