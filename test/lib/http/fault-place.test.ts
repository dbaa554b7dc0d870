import { test } from 'tap'
import { faultPlaceOf } from '../../../lib/http/json-body.js'

const places: readonly [text: string, line: number, column: number][] = [
  ['{text:"x"}', 1, 2],
  ["{'a':1}", 1, 2],
  ['', 1, 1],
  [' ', 1, 2],
  ['{"a":1,}', 1, 8],
  ['[1,2', 1, 5],
  ['[1}', 1, 3],
  ['[1] x', 1, 5],
  ['{"a" 1}', 1, 6],
  ['{\n  "a": tru\n}', 2, 8],
  ['[1,\r\n2,\r\n\r\n!]', 4, 1],
  ['{"a":"b\n"}', 1, 6],
  ['{"a":"\\x"}', 1, 6],
  ['{"é😀":01}', 1, 9],
  ['// x\n{}', 1, 1],
  ['[NaN]', 1, 2],
  ['\ufeff{}', 1, 1]
]

test('the position where a text stops being JSON is reported', async (t) => {
  for (const [text, line, column] of places) {
    t.throws(() => JSON.parse(text), text)
    t.strictSame(faultPlaceOf(text), { line, column }, JSON.stringify(text))
  }
  for (const text of ['{}', ' [1, -0.5e3, "\\ud800", null]\n', '"x"', '{"a":1,"a":2}']) t.equal(faultPlaceOf(text), null, text)
})

test('of a text with many faults, only the first is searched', async (t) => {
  const text = `[${'!,'.repeat(500_000)}]`
  t.strictSame(faultPlaceOf(text), { line: 1, column: 2 })
})

test('a text with one changed character is either valid JSON for both parsers or has a position', async (t) => {
  const json = '{"a":[1,-2.5e3,"x\\n"],"b":{"c":true,"d":null}}'
  for (let at = 0; at < json.length; at++) {
    for (const put of ['', '"', '}', ']', ',', ':', '0', 'e', '.', '-', '\\', '\n', ' ', '\u0000', '/']) {
      const text = json.slice(0, at) + put + json.slice(at + 1)
      const isJson = canParse(text)
      if ((faultPlaceOf(text) === null) !== isJson) t.fail(`${text} is ${isJson ? '' : 'not '}JSON`)
    }
  }
})

function canParse (text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
