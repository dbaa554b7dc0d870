import t from 'tap'
import { isStorable, isStorableJson, storable, storableJson } from '../../../lib/json/storable.js'
import { stringifyJson } from '../../../lib/json/stringify.js'

t.test('texts that PostgreSQL cannot store are detected and made storable', async (t) => {
  for (const text of ['\0', 'a\0b', '\ud800', 'a\udc00', '\ud800\ud800\udc00']) {
    t.notOk(isStorable(text))
    t.notOk(isStorableJson(JSON.stringify({ text })))
    t.notOk(isStorableJson(JSON.stringify({ text }).replaceAll('\\ud', '\\uD')), 'with capital letters')
    t.ok(isStorable(storable(text)))
    t.ok(isStorableJson(storableJson(stringifyJson({ text }))))
    t.same(JSON.parse(storableJson(stringifyJson({ text }))), { text: storable(text) })
    t.equal(storable(text).length, text.length, 'one replacement character for each')
  }
  for (const text of ['', 'a\n"\\', '\\u0000', '\\ud800', '😀', '\\\\u0000']) {
    t.equal(storable(text), text)
    t.same(JSON.parse(storableJson(stringifyJson({ text }))), { text })
  }
})
