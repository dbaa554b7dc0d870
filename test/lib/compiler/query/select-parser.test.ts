import { test } from 'tap'
import { parseSelect } from '../../../../lib/compiler/query/select-parser.js'

test('columns, names for them, and embedded tables with theirs', async t => {
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

test('a name with other characters stands in quotes', async t => {
  t.strictSame(parseSelect('"we""ird col":"a,b(c)", größe').map(({ name, alias }) => ({ name, alias })), [
    { name: 'a,b(c)', alias: 'we"ird col' },
    { name: 'größe', alias: undefined }
  ])
})

test('what is wrong is told by its place', async t => {
  const faults = {
    '': 'expected a name at character 1, found the end',
    'id,': 'expected a name at character 4, found the end',
    'id title': 'expected `,` or the end at character 4, found `t`',
    'reviews(id': 'expected `,` or `)` at character 11, found the end',
    'reviews(id))': 'expected `,` or the end at character 12, found `)`',
    'reviews()': 'expected a name at character 9, found `)`',
    'users!fk': 'expected `(` after the foreign key at character 9, found the end',
    'id::text': 'expected a name at character 4, found `:`',
    '"open': 'expected a name that ends with `"` at character 1, found `"`',
    'id; drop table users': 'expected `,` or the end at character 3, found `;`',
    'a(a(a(a(a(a(id))))))': 'tables are embedded at most 5 deep'
  }
  for (const [text, message] of Object.entries(faults)) {
    t.throws(() => parseSelect(text), { message }, text)
  }
  t.throws(() => parseSelect('a('.repeat(100_000)), { message: 'tables are embedded at most 5 deep' })
  t.throws(() => parseSelect('a,'.repeat(1000)), { message: 'a select holds at most 500 items' })
})
