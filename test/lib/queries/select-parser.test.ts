import { test } from 'tap'
import { parseSelect } from '../../../lib/queries/select-parser.js'

test('selects columns, aliases, and embedded tables with theirs', async t => {
  t.strictSame(parseSelect('*, heading:title,reviews ( stars, writer:users!author_id(name) ),tasks(count)'), [
    { name: '*', text: '*' },
    { name: 'title', alias: 'heading', text: 'heading:title' },
    {
      name: 'reviews',
      items: [
        { name: 'stars', text: 'stars' },
        { name: 'users', alias: 'writer', hint: 'author_id', items: [{ name: 'name', text: 'name' }], text: 'writer:users!author_id(name)' }
      ],
      text: 'reviews ( stars, writer:users!author_id(name) )'
    },
    { name: 'tasks', items: [{ name: 'count', text: 'count' }], text: 'tasks(count)' }
  ])
})

test('a name with other characters is quoted', async t => {
  t.strictSame(parseSelect('"we""ird col":"a,b(c)", größe').map(({ name, alias }) => ({ name, alias })), [
    { name: 'a,b(c)', alias: 'we"ird col' },
    { name: 'größe', alias: undefined }
  ])
})

test('parses aggregates and paths in JSON columns', async t => {
  t.strictSame(parseSelect("kind, total : qty . sum ( ),count(),n:count(), data->'a b''c' -> -1->>'d', first-name,d->0.max()"), [
    { name: 'kind', text: 'kind' },
    { name: 'qty', alias: 'total', aggregate: 'sum', text: 'total : qty . sum ( )' },
    { name: '*', aggregate: 'count', text: 'count()' },
    { name: '*', alias: 'n', aggregate: 'count', text: 'n:count()' },
    { name: 'data', path: { keys: ["a b'c", -1, 'd'], text: true }, text: "data->'a b''c' -> -1->>'d'" },
    { name: 'first-name', text: 'first-name' },
    { name: 'd', path: { keys: [0], text: false }, aggregate: 'max', text: 'd->0.max()' }
  ])
})

test('parses embeds that must have rows', async t => {
  t.strictSame(
    parseSelect('a!inner(id), b!fk!inner(id), c!inner!fk(id), d!"inner"!inner(id)').map(({ name, hint, inner }) => ({ name, hint, inner })),
    [
      { name: 'a', hint: undefined, inner: true },
      { name: 'b', hint: 'fk', inner: true },
      { name: 'c', hint: 'fk', inner: true },
      { name: 'd', hint: 'inner', inner: true }
    ]
  )
})

test('faults are reported with their positions', async t => {
  const faults = {
    '': 'expected a name at character 1, found the end',
    'id,': 'expected a name at character 4, found the end',
    'id title': 'expected `,` or the end at character 4, found `t`',
    'reviews(id': 'expected `,` or `)` at character 11, found the end',
    'reviews(id))': 'expected `,` or the end at character 12, found `)`',
    'reviews()': 'expected a name at character 9, found `)`',
    'users!fk': 'expected `(` after the foreign key at character 9, found the end',
    'users!inner': 'expected `(` after `!inner` at character 12, found the end',
    'users!a!b(id)': 'an embed uses one foreign key: remove `!a` or `!b`',
    'users!a!inner!b(id)': 'expected `(` after the foreign key at character 14, found `!`',
    'id::text': 'expected a name at character 4, found `:`',
    '"open': 'expected a name that ends with `"` at character 1, found `"`',
    'id; drop table users': 'expected `,` or the end at character 3, found `;`',
    'qty.summ()': 'there is no aggregate "summ" (character 5): expected sum, avg, min, max, count, did you mean "sum"?',
    'qty.sum': 'expected `()` after `.sum` at character 8, found the end',
    'qty.sum(id)': 'expected `()` after `.sum` at character 8, found `(`',
    'data->': "expected a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0` at character 7, found the end",
    'data->>city': "expected a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0` at character 8, found `c`",
    "data->'open": "expected a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0` at character 7, found `'`",
    "data->'open''":
      "expected a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0` at character 7, found `'`",
    "data->'a\0'": "expected a key without the character NUL (U+0000) or half of a surrogate pair at character 7, found `'`",
    "data->0'x'": "expected a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0` at character 7, found `0`",
    "data->>'a'->'b'": '`->>` returns text, which has no members: write `->` before it (character 11)',
    "data->'a'; drop": 'expected `,` or the end at character 10, found `;`',
    [`data${"->'a'".repeat(11)}`]: 'expected at most 10 keys in a path at character 55, found `-`',
    'a(a(a(a(a(a(id))))))': 'tables can be embedded at most 5 levels deep'
  }
  for (const [text, message] of Object.entries(faults)) {
    t.throws(() => parseSelect(text), { message }, text)
  }
  t.throws(() => parseSelect('a('.repeat(100_000)), { message: 'tables can be embedded at most 5 levels deep' })
  t.throws(() => parseSelect(`data->'${"''x".repeat(100_000)}`), { message: /^expected a key in single quotes/ })
  t.throws(() => parseSelect(`data${'->0'.repeat(100_000)}`), { message: /^expected at most 10 keys/ })
  t.throws(() => parseSelect('a,'.repeat(1000)), { message: 'a select can have at most 500 items' })
})
