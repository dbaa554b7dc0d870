/** JSON with all digits of numbers, compared with a slow reader that keeps each number as text. */
import { test } from 'tap'
import { compareNumbers, ExactNumber, isExact, numberIn, numberKey, numberOf } from '../../../lib/json/exact-number.js'
import { mayHoldExact, NumberTooLongError, parseJson, parseSent, withExactTexts } from '../../../lib/json/parse.js'
import { mapExact } from '../../../lib/json/plain-value.js'
import { stringifyJson, toJsonText } from '../../../lib/json/stringify.js'

function seeded (seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5 | 0
    return ((state ^ (state >>> 13)) >>> 0) % below
  }
}

/** The same value, with each number as [negative, digits, exponent]. */
function model (text: string): unknown {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g) ?? []
  let at = 0
  const read = (): unknown => {
    const token = tokens[at++] ?? ''
    if (token === '[') {
      const items: unknown[] = []
      while (tokens[at] !== ']') {
        items.push(read())
        if (tokens[at] === ',') at++
      }
      at++
      return items
    }
    if (token === '{') {
      const members = new Map<string, unknown>()
      while (tokens[at] !== '}') {
        const name = String(JSON.parse(tokens[at++] ?? ''))
        at++
        members.set(name, read())
        if (tokens[at] === ',') at++
      }
      at++
      return Object.fromEntries(members)
    }
    return /^[-\d]/.test(token) ? decimal(token) : JSON.parse(token)
  }
  return read()
}

function decimal (text: string): unknown {
  const [mantissa = '', power = '0'] = text.toLowerCase().replace(/^-/, '').split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  let digits = BigInt(whole + fraction)
  let exponent = BigInt(power) - BigInt(fraction.length)
  if (digits === 0n) return ['number', '0', '0']
  while (digits % 10n === 0n) [digits, exponent] = [digits / 10n, exponent + 1n]
  return ['number', `${text.startsWith('-') ? '-' : ''}${digits}`, String(exponent)]
}

const numbers = [
  '0',
  '-0',
  '1',
  '1.5',
  '-2.25e3',
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-9007199254740993',
  '9223372036854775807',
  '123456789012345',
  '1234567890123456',
  '0.1',
  '0.30000000000000004',
  '12345678901234567890.10',
  '0.000000000000000000001',
  '100000000000000000000000',
  '1e300',
  '1E+308',
  '1.0000000000000000000000001',
  '2.5e-10',
  '5e-324',
  '123456789012345678901234567890e-20',
  '0.1234567890123456789'
]
const strings = [
  '',
  'a',
  '9007199254740993',
  ':9007199254740993',
  '[12345678901234567890.10]',
  '\\"9007199254740993\\"',
  '\\\\',
  '\\\\\\"',
  '8e-123',
  'a, 9007199254740993 ',
  '\\u0031'
]

function document (random: (below: number) => number, depth: number): string {
  const pad = () => ['', ' ', '\n\t'][random(3)] ?? ''
  const kind = random(depth > 4 ? 3 : 5)
  if (kind === 0) return numbers[random(numbers.length)] ?? '0'
  if (kind === 1) return `"${strings[random(strings.length)] ?? ''}"`
  if (kind === 2) {
    return random(2) === 0
      ? Array.from({ length: 1 + random(30) }, (_, index) => index === 0 ? 1 + random(9) : random(10)).join('')
      : ['true', 'null', 'false'][random(3)] ?? 'null'
  }
  const items = Array.from({ length: random(5) }, () => pad() + document(random, depth + 1) + pad())
  return kind === 3
    ? `[${items.join(',')}]`
    : `{${items.map((item) => `${pad()}"${strings[random(strings.length)] ?? ''}${random(3)}"${pad()}:${item}`).join(',')}}`
}

test('a value that is read and written stays the same, digit for digit', async (t) => {
  const random = seeded(18)
  for (let round = 0; round < 5000; round++) {
    const text = document(random, 0)
    const value = parseJson(text)
    const written = stringifyJson(value)
    t.strictSame(model(written), model(text), text)
    t.equal(toJsonText(value), written)
    if (!mayHoldExact(text)) t.strictSame(value, JSON.parse(text))
    t.strictSame(JSON.parse(withExactTexts(text)), mapExact(value, String), 'exact numbers as texts')
  }
})

test('safe numbers become numbers, large integers bigints, other decimals ExactNumbers', async (t) => {
  t.strictSame(parseJson('[9007199254740991,-9007199254740991,0.30000000000000004,1e21]'), [
    9007199254740991,
    -9007199254740991,
    0.30000000000000004,
    1e21
  ])
  t.strictSame(parseJson('[9007199254740992,9007199254740993,-9007199254740993]'), [
    9007199254740992n,
    9007199254740993n,
    -9007199254740993n
  ])
  const [exact] = [numberOf('12345678901234567890.10')]
  t.ok(exact instanceof ExactNumber)
  t.equal(String(exact), '12345678901234567890.10')
  t.equal(Number(exact), Number('12345678901234567890.10'))
  t.strictSame(Object.keys(Object(exact)), [])
  t.throws(() => JSON.stringify(exact), TypeError)
})

test('invalid JSON is rejected', async (t) => {
  const long = '9007199254740993'
  for (
    const text of [
      `{${long}:1}`,
      `0${long}`,
      `+${long}`,
      `${long}a`,
      `a${long}`,
      `${long}.`,
      `[${long},]`,
      `--${long}`,
      `"a"${long}`,
      `${long}"a"`,
      `1 ${long}`,
      `.${long}`,
      `${long}..1`,
      `[${long}`,
      `{"a" ${long}}`,
      `{ ${long} : 1 }`
    ]
  ) {
    t.throws(() => parseJson(text), SyntaxError, text)
    t.throws(() => parseSent(text), SyntaxError, text)
  }
})

test('the next string is not looked up again for each number', (t) => {
  const numbers = Array(1000).fill('9007199254740993').join(',')
  for (const text of [`[${numbers}]`, `[${numbers},"a",${numbers}]`]) {
    const calls = t.capture(String.prototype, 'indexOf', String.prototype.indexOf)
    parseJson(text)
    calls.restore()
    t.ok(calls().length < 10)
  }
  t.end()
})

test('names such as __proto__ are ordinary members', async (t) => {
  const value = parseJson('{"__proto__":9007199254740993,"a":{"__proto__":{"b":9007199254740993}}}')
  t.equal(Object.getPrototypeOf(value), Object.prototype)
  t.equal(stringifyJson(value), '{"__proto__":9007199254740993,"a":{"__proto__":{"b":9007199254740993}}}')
})

test("callers' numbers are bounded", async (t) => {
  for (
    const text of ['9'.repeat(1011), '1e400', '-1e400', '1e-400', `[0.${'1'.repeat(100_000)}]`, '1e100000', '1.5E-99999999999999999999']
  ) { t.throws(() => parseSent(text), NumberTooLongError, text.slice(0, 30)) }
  t.equal(parseSent('9'.repeat(1000)), BigInt('9'.repeat(1000)))
  for (const text of ['0e400', '0.0e-999', '"1e400"', '"a" ']) t.strictSame(parseSent(text), JSON.parse(text), text)
  const digits = '9'.repeat(100_000)
  t.equal(stringifyJson(parseJson(`[${digits}]`)), `[${digits}]`, 'numbers from the database are not')
})

test('comparisons are exact', async (t) => {
  const ordered = [
    '-12345678901234567890.1',
    '-9007199254740993',
    '-1',
    '0',
    '0.1234567890123456789',
    '1',
    '9007199254740993',
    '9007199254740993.5',
    '12345678901234567890.1'
  ]
  for (const [index, text] of ordered.entries()) {
    for (const [other, bound] of ordered.map(Number).entries()) {
      if (index !== other) t.equal(Math.sign(compareNumbers(numberOf(text), bound)), Math.sign(index - other) || 0, `${text} ${bound}`)
    }
  }
  t.equal(compareNumbers(9007199254740993n, 9007199254740992), 1)
  t.equal(compareNumbers(numberOf('0.1000000000000000000001'), 0.1), 1)
  t.equal(compareNumbers(numberOf('-0.1000000000000000000001'), -0.1), -1)
  t.equal(compareNumbers(numberOf('0.0999999999999999999999'), 0.1), -1)
  t.equal(compareNumbers(numberOf('1e-400'), 0), 1)
})

test('texts of a URL are parsed exactly', async (t) => {
  t.equal(numberIn('9007199254740993'), 9007199254740993n)
  t.ok(isExact(numberIn('12345678901234567890.10')))
  t.equal(numberIn('007'), 7)
  for (const text of ['', ' 1', '0x10', '+1', '1e999', '9'.repeat(2000)]) t.equal(numberIn(text), undefined, text.slice(0, 10))
})

test('only equal numbers share a key', (t) => {
  const groups = [
    ['10', '10.0', '1e1', '010'],
    ['10.000000000000000000001'],
    ['-10'],
    ['0', '-0', '0.00000000000000000000', '0e999'],
    ['9007199254740991'],
    ['9007199254740992', '9007199254740992.0'],
    ['9007199254740993', '9007199254740993.000'],
    ['1e22', '10000000000000000000000', '10000000000000000000000.0'],
    ['1e400', `1${'0'.repeat(400)}`],
    ['0.1'],
    ['0.10000000000000000000010', '0.1000000000000000000001']
  ]
  const keys = groups.map((group) => new Set(group.map((text) => numberKey(numberOf(text)))))
  for (const [index, set] of keys.entries()) t.equal(set.size, 1, String(groups[index]))
  t.equal(new Set(keys.flatMap((set) => [...set])).size, groups.length)
  t.end()
})
