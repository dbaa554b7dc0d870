/**
 * Random expressions over hostile values, with a fixed seed. The bound is asserted by counts: steps and bytes that the budget charged, the
 * measured work of the engine's functions, and the sizes of results.
 */
import t from 'tap'
import { isFailure } from '../../../lib/errors.js'
import { functions, methods } from '../../../lib/expressions/cel/compile.js'
import { Budget, ExpressionLimit, maxBytes, maxSteps } from '../../../lib/expressions/cel/frame.js'
import { NotComputable } from '../../../lib/expressions/cel/values.js'
import { compileExpression, expressionFunctions } from '../../../lib/expressions/expression.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { ExactNumber, isExact } from '../../../lib/json/exact-number.js'
import { FaultList } from '../../../lib/schema/faults.js'
import { seededRandom } from '../../helpers/random.js'

const expressions = 20_000
const operators = [
  '+',
  '-',
  '*',
  '/',
  '%',
  '==',
  '!=',
  '<',
  '<=',
  '>',
  '>=',
  'in',
  '&&',
  '||',
  '!',
  '?:',
  '[]',
  '.',
  'list',
  'map',
  'template',
  'unary -'
]
/** Bodies of macros. A value is the same object as itself, so long numbers are compared with others. */
const predicates = ['x == x', 'x == body.decimal', 'x != body.integer', 'x in body.decimals', 'body.decimal in [x]', 'x > body.decimals[1]']
const macros = ['all', 'exists', 'exists_one', 'map', 'filter', 'bind', 'has', 'matches', 'duration']
/** Signatures of the library that no expression can reach, since optional values are disabled. */
const unreachable = /optional|OptionalNamespace|CelNamespace\)/

/** Values that make an expression grow or scan the most, for texts of the given length. */
function hostile (length: number, random: () => number): Record<string, unknown> {
  const same = 'a'.repeat(length)
  const digits = Array.from({ length: 1000 }, () => String(1 + Math.floor(9 * random()))).join('')
  // Each differs from the others in its last digits only.
  const long = (prefix: string) => Array.from({ length: length / 64 }, (_, index) => `${prefix}${digits}${index}`)
  const nested = (depth: number): unknown => depth === 0 ? same.slice(0, length / 8) : [nested(depth - 1), { a: nested(depth - 1) }]
  return {
    same,
    needle: `${'a'.repeat(length / 4)}b${'a'.repeat(length / 4)}`,
    period: 'ab'.repeat(length / 2),
    pairs: '😀'.repeat(length / 4),
    grows: 'ŉß'.repeat(length / 8),
    json: `[${'{},'.repeat(length / 16)}{}]`,
    short: 'a',
    empty: '',
    zone: 'Europe/Berlin',
    at: '2026-01-02T03:04:05Z',
    list: Array.from({ length: length / 16 }, (_, index) => `item ${index % 7}`),
    numbers: Array.from({ length: length / 16 }, (_, index) => index),
    map: Object.fromEntries(Array.from({ length: length / 64 }, (_, index) => [`key ${index}`, same.slice(0, 32)])),
    nested: nested(4),
    number: 12.5,
    zero: 0,
    large: 2n ** 63n - 1n,
    huge: 10n ** 300n,
    decimal: new ExactNumber(`1.${digits}`),
    decimals: long('1.').map((text) => new ExactNumber(text)),
    integer: BigInt(digits),
    integers: long('').map(BigInt),
    yes: true,
    nothing: null
  }
}

class Generator {
  readonly random: () => number
  readonly #byType = new Map<string, { readonly name: string, readonly receiver: string | null, readonly args: readonly string[] }[]>()
  used = new Set<string>()
  #names = 0

  constructor (random: () => number) {
    this.random = random
    for (const signature of expressionFunctions()) {
      const [, receiver = null, name = '', args = '', type = ''] =
        /^(?:(.+?)\.)?(\w+)\((.*)\): (.+)$/.exec(signature.replaceAll('google.protobuf.', 'google_')) ?? []
      if (unreachable.test(signature) || macros.includes(name)) continue
      const list = this.#byType.get(simple(type)) ?? []
      list.push({
        name,
        receiver: receiver === null ? null : simple(receiver),
        args: args === '' ? [] : args.split(/, (?![^<]*>)/).map(simple)
      })
      this.#byType.set(simple(type), list)
    }
  }

  pick<Item> (items: readonly Item[]): Item {
    return items[Math.floor(this.random() * items.length)]!
  }

  take (name: string): void {
    this.used.add(name)
  }

  expression (type: string, depth: number): string {
    if (depth <= 0 || this.random() < 0.15) return this.leaf(type)
    const kind = this.random()
    if (kind < 0.5) return this.call(type, depth) ?? this.operation(type, depth)
    if (kind < 0.58) {
      this.take('?:')
      return `(${this.expression('bool', depth - 1)} ? ${this.expression(type, depth - 1)} : ${this.expression(type, depth - 1)})`
    }
    if (kind < 0.62) {
      this.take('bind')
      const name = `x${this.#names++}`
      return `cel.bind(${name}, ${this.expression(type, depth - 1)}, ${this.pick([`${name} + ${name}`, name, `[${name}, ${name}][0]`])})`
    }
    return this.operation(type, depth)
  }

  call (type: string, depth: number): string | undefined {
    const candidates = this.#byType.get(type)
    if (candidates === undefined) return undefined
    const { name, receiver, args } = this.pick(candidates)
    this.take(`${name}/${args.length + (receiver === null ? 0 : 1)}`)
    const given = args.map((arg) => this.expression(arg, depth - 1)).join(', ')
    return receiver === null ? `${name}(${given})` : `(${this.expression(receiver, depth - 1)}).${name}(${given})`
  }

  binary (operator: string, left: string, right: string): string {
    this.take(operator)
    return `(${left} ${operator} ${right})`
  }

  operation (type: string, depth: number): string {
    const next = (of: string) => this.expression(of, depth - 1)
    switch (type) {
      case 'bool': {
        const of = this.pick(['string', 'double', 'list', 'map', 'bytes', 'google_Timestamp'])
        const roll = this.random()
        if (roll < 0.2) return this.binary(this.pick(['==', '!=']), next(of), next(of))
        if (roll < 0.35) {
          const ordered = this.pick(['string', 'double'])
          return this.binary(this.pick(['<', '<=', '>', '>=']), next(ordered), next(ordered))
        }
        if (roll < 0.5) return this.binary('in', next(this.pick(['string', 'double'])), next(this.pick(['list', 'map'])))
        if (roll < 0.65) return this.binary(this.pick(['&&', '||']), next('bool'), next('bool'))
        if (roll < 0.72) return this.#not(next(this.pick(['bool', 'string', 'double'])))
        if (roll < 0.8) return this.#matches(next('string'))
        if (roll < 0.85) return this.#has()
        return this.#macro(this.pick(['all', 'exists', 'exists_one']), this.pick(predicates), depth)
      }
      case 'string':
        return this.binary('+', next('string'), next('string'))
      case 'int':
      case 'double':
        return this.random() < 0.1
          ? this.#minus(next('double'))
          : this.binary(this.pick(['+', '-', '*', '/', '%']), next('double'), next('double'))
      case 'list': {
        const roll = this.random()
        if (roll < 0.3) return this.binary('+', next('list'), next('list'))
        if (roll < 0.6) {
          return this.#macro(
            this.pick(['map', 'filter']),
            this.pick([...predicates, '[x, x]', 'string(x) + body.same', '[1, 2].map(y, [x, y])']),
            depth
          )
        }
        this.take('list')
        return `[${Array.from({ length: 1 + Math.floor(this.random() * 6) }, () => next(this.pick(['string', 'list', 'map', 'double']))).join(', ')}]`
      }
      case 'map':
        this.take('map')
        return `{${next('string')}: ${next('string')}, "b": ${next('list')}}`
      case 'bytes':
        return this.binary('+', next('bytes'), next('bytes'))
      default:
        this.take('[]')
        return `${next('list')}[${next('int')}]`
    }
  }

  #not (operand: string): string {
    this.take('!')
    return `!(${operand})`
  }

  #minus (operand: string): string {
    this.take('unary -')
    return `-(${operand})`
  }

  #matches (operand: string): string {
    this.take('matches')
    return `(${operand}).matches("${this.pick(['a+b', '(a|b)*c$', '[^x]+y'])}")`
  }

  #has (): string {
    this.take('has')
    return 'has(body.map.missing)'
  }

  #macro (name: string, body: string, depth: number): string {
    this.take(name)
    return `(${this.expression('list', depth - 1)}).${name}(x, ${body})`
  }

  leaf (type: string): string {
    this.take(this.random() < 0.5 ? '.' : '[]')
    switch (type) {
      case 'string': {
        if (this.random() < 0.2) this.take('template')
        return this.pick([
          'body.same',
          'body.needle',
          'body.period',
          'body.pairs',
          'body.grows',
          'body.short',
          'body.empty',
          'body.json',
          'body["zone"]',
          'body.at',
          'body.list[0]',
          '"a"',
          "'{{body.nested}} {{body.same}}'",
          "'{{body.list}}'"
        ])
      }
      case 'int':
        return this.pick(['1', '-1', '1000000', '9223372036854775807', 'body.large', 'body.huge', 'body.integer', 'size(body.same)'])
      case 'uint':
        return this.pick(['1u', '18446744073709551615u'])
      case 'double':
        return this.pick(['body.number', 'body.zero', 'body.decimal', 'body.decimals[1]', 'body.integers[1]', '1.5e300', '2.0'])
      case 'bool':
        return this.pick(['true', 'false', 'body.yes'])
      case 'bytes':
        return this.pick(['b"abc"', 'bytes(body.same)', 'bytes(body.json)', 'bytes(body.pairs)'])
      case 'list':
        return this.pick(['body.list', 'body.numbers', 'body.decimals', 'body.integers', 'body.nested', '[]', '[body.same, body.same]'])
      case 'map':
        return this.pick(['body.map', 'body', '{}', 'body.nested[1]'])
      case 'google_Timestamp':
        return this.pick(['timestamp(body.at)', 'timestamp(1)'])
      case 'google_Duration': {
        this.take('duration')
        return this.pick(['duration("90s")', '(timestamp(body.at) - timestamp(1))'])
      }
      case 'type':
        return this.pick(['string', 'list', 'type(body)'])
      case 'null':
        return this.pick(['null', 'body.nothing'])
      default:
        return this.pick(['body.nested', 'body.same', 'body.map', 'body.number', 'body.nothing', 'body.missing.more'])
    }
  }
}

function simple (type: string): string {
  return type.replace(/<.*>$/, '').replaceAll('google.protobuf.', 'google_')
}

/** The work of the engine's functions during an expression: scanned characters, and characters of the results. */
interface Work {
  units: number
  made: number
}

/** Counts the work of each function that is not constant, at its worst case. */
function meter (teardown: (restore: () => void) => void, work: Work): void {
  const watch = (owner: object, name: string, cost: (self: unknown, args: readonly unknown[], result: unknown) => Work) => {
    const original = Reflect.get(owner, name)
    Reflect.set(owner, name, function (this: unknown, ...args: unknown[]): unknown {
      const result: unknown = Reflect.apply(original, this, args)
      const { units, made } = cost(this, args, result)
      work.units += units
      work.made += made
      return result
    })
    teardown(() => {
      Reflect.set(owner, name, original)
    })
  }
  const lengthOf = (value: unknown): number =>
    typeof value === 'string' || Array.isArray(value) || value instanceof Uint8Array ? value.length : 0
  const search = (self: unknown, [pattern]: readonly unknown[]): Work => ({
    units: lengthOf(self) * Math.max(1, lengthOf(pattern)),
    made: 0
  })
  const found = (self: unknown, [pattern, from = 0]: readonly unknown[], result: unknown): Work => ({
    units: (Number(result) < 0 ? lengthOf(self) - Number(from) : Number(result) - Number(from) + 1) * Math.max(1, lengthOf(pattern)),
    made: 0
  })
  const walk = (self: unknown, _args: readonly unknown[], result: unknown): Work => ({ units: lengthOf(self), made: lengthOf(result) })
  const one = (): Work => ({ units: 1, made: 0 })
  watch(String.prototype, 'includes', search)
  watch(String.prototype, 'indexOf', found)
  watch(String.prototype, 'lastIndexOf', search)
  watch(String.prototype, 'split', search)
  watch(String.prototype, 'startsWith', (_self, [other]) => ({ units: lengthOf(other), made: 0 }))
  watch(String.prototype, 'endsWith', (_self, [other]) => ({ units: lengthOf(other), made: 0 }))
  watch(String.prototype, 'charCodeAt', one)
  for (
    const name of [
      'replace',
      'replaceAll',
      'match',
      'repeat',
      'padStart',
      'padEnd',
      'normalize',
      'localeCompare',
      'toLowerCase',
      'toUpperCase'
    ]
  ) watch(String.prototype, name, walk)
  for (const name of ['join', 'toString']) {
    watch(Array.prototype, name, (_self, _args, result) => ({ units: lengthOf(result), made: lengthOf(result) }))
  }
  watch(Array.prototype, 'concat', (_self, _args, result) => ({ units: lengthOf(result), made: 8 * lengthOf(result) }))
  watch(Object, 'keys', (_self, _args, result) => ({ units: lengthOf(result), made: 8 * lengthOf(result) }))
  watch(Object, 'entries', (_self, _args, result) => ({ units: lengthOf(result), made: 8 * lengthOf(result) }))
  watch(JSON, 'parse', (_self, [text]) => ({ units: lengthOf(text), made: lengthOf(text) }))
  // A global pattern passes over its text once, in many calls.
  watch(RegExp.prototype, 'exec', (self, [text]) => ({ units: self instanceof RegExp && self.global ? 0 : lengthOf(text), made: 0 }))
  watch(ExactNumber.prototype, 'valueOf', (self) => ({ units: unitsPerDigit * String(self).length, made: 0 }))
}

/** The conversion of a digit of a decimal to a double, and of a bigint to a digit, take up to 10 ns. */
const unitsPerDigit = 8

/** Characters and members of a value in its written form. */
function sizeOf (value: unknown): number {
  if (typeof value === 'string') return value.length
  if (isExact(value)) return String(value).length
  if (typeof value !== 'object' || value === null) return 1
  let size = 1
  for (const [name, item] of Object.entries(value)) size += (Array.isArray(value) ? 0 : name.length) + sizeOf(item)
  return size
}

/** Digits of the bigints in a result, which the response writes. */
function digitsOf (value: unknown): number {
  if (typeof value === 'bigint') return String(value).length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce((sum: number, item) => sum + digitsOf(item), 0)
}

const scopeOf = (body: unknown): Scope => ({ ...noScope, body })

t.test('every callable function has a meter', async (t) => {
  const names = [
    ...new Set(
      expressionFunctions().filter((signature) => !unreachable.test(signature)).flatMap((signature) => {
        const [, receiver, name = '', args = ''] =
          /^(?:(.+?)\.)?(\w+)\((.*)\): /.exec(signature.replaceAll('google.protobuf.', 'google_')) ?? []
        if (macros.includes(name) || name === 'now' || name === 'uuid') return []
        const count = args === '' ? 0 : args.split(/, (?![^<]*>)/).length
        return receiver === undefined ? [`${name}/${count}`] : [`.${name}/${count + 1}`]
      })
    )
  ]
  t.strictSame(
    names.filter((name) => !(name.startsWith('.') ? Object.hasOwn(methods, name.slice(1)) : Object.hasOwn(functions, name))),
    [],
    'every accepted expression can be evaluated'
  )
  // Functions whose cost does not grow with their operands.
  const constant = new Set([
    'dyn/1',
    'type/1',
    'bool/1',
    'timestamp/1',
    'at/2',
    ...Object.keys(methods).filter((name) => name.startsWith('get'))
  ])
  const text = 'a'.repeat(8_000_000)
  const operands = [
    text,
    Buffer.from(text),
    new Array<string>(1_000_000).fill('aaaaaaaa'),
    Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`k${index}`, 1])),
    new ExactNumber(`1.${'7'.repeat(8_000_000)}`)
  ]
  for (const [name, implementation] of [...Object.entries(functions), ...Object.entries(methods)]) {
    if (constant.has(name)) continue
    const outcomes = operands.flatMap((first) =>
      [text, 'aaab', 3n, undefined].map((second) => {
        const budget = new Budget()
        try {
          implementation(budget, first, second, 5n)
          return 'done'
        } catch (error) {
          return error instanceof ExpressionLimit ? 'limit' : error instanceof NotComputable ? 'refused' : 'error'
        }
      })
    )
    t.ok(outcomes.includes('limit'), `${name} rejects large operands`)
    t.notOk(outcomes.includes('error'), `${name} fails only with known errors`)
  }
})

t.test('no expression exceeds its budget', async (t) => {
  const random = seededRandom(20_261_122)
  const small = scopeOf(hostile(512, random))
  const large = scopeOf(hostile(262_144, random))
  const used = new Map<string, number>()
  const outcomes = { value: 0, limit: 0, failed: 0, refused: 0 }
  const work: Work = { units: 0, made: 0 }
  meter((restore) => t.teardown(restore), work)
  const wrong: string[] = []
  const types = [
    'bool',
    'string',
    'int',
    'double',
    'list',
    'map',
    'bytes',
    'google_Timestamp',
    'google_Duration',
    'dyn',
    'type',
    'uint',
    'null'
  ]
  for (let count = 0; count < expressions; count++) {
    const generator = new Generator(random)
    const text = generator.expression(generator.pick(types), 1 + Math.floor(random() * 5))
    const faults = new FaultList()
    const compiled = compileExpression(text, '/x', { faults, sources: new Set(['body']), env: {} }, [])
    if (compiled === null) {
      outcomes.refused++
      continue
    }
    for (const name of generator.used) used.set(name, (used.get(name) ?? 0) + 1)
    const budget = new Budget()
    work.units = 0
    work.made = 0
    let result: unknown = null
    try {
      result = compiled.evaluate(count % 20 === 0 ? large : small, {}, budget)
      outcomes.value++
    } catch (error) {
      if (isFailure(error, 'expressionLimit')) outcomes.limit++
      else if (error instanceof NotComputable) outcomes.failed++
      else wrong.push(`${String(error)}: ${text}`)
    }
    const { made } = work
    const units = work.units + unitsPerDigit * digitsOf(result)
    const steps = Math.min(maxSteps, maxSteps - budget.steps)
    const bytes = Math.min(maxBytes, maxBytes - budget.bytes)
    if (units > 16 * steps + 4096) wrong.push(`${units} units for ${steps} steps: ${text}`)
    if (made > bytes + 4096) wrong.push(`${made} bytes made for ${bytes} charged: ${text}`)
    if (sizeOf(result) > bytes + 1024) wrong.push(`a result of ${sizeOf(result)} for ${bytes} bytes: ${text}`)
  }
  t.strictSame(wrong.slice(0, 10), [])
  t.comment(JSON.stringify(outcomes))
  t.ok(outcomes.value > expressions / 4 && outcomes.limit > 40, 'the expressions produce results')
  const names = [...Object.keys(functions), ...Object.keys(methods)]
  t.strictSame([...operators, ...macros, ...names].filter((name) => !used.has(name)), [], 'every operator, function and macro was run')
})
