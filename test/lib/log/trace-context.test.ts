import t from 'tap'
import { traceIdOf, traceOf } from '../../../lib/log/trace-context.js'

const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

t.test('a trace is recognized as the standard defines it, and forwarded unchanged', async (t) => {
  t.same(traceOf({ traceparent }), { traceparent })
  t.equal(traceIdOf(traceparent), '4bf92f3577b34da6a3ce929d0e0e4736')
  for (const flags of ['00', '01', 'ff']) t.ok(traceOf({ traceparent: traceparent.slice(0, -2) + flags }))
  const invalid = [
    undefined,
    '',
    ` ${traceparent}`,
    `${traceparent} `,
    traceparent.toUpperCase(),
    traceparent.replace('00-', 'ff-'),
    `${traceparent}-x`,
    traceparent.slice(0, -1),
    '00-00000000000000000000000000000000-00f067aa0ba902b7-01',
    '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01',
    traceparent.replaceAll('-', '_'),
    `${traceparent}\n`,
    `${traceparent}, ${traceparent}`,
    '00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01'
  ]
  for (const wrong of invalid) t.equal(traceOf(wrong === undefined ? {} : { traceparent: wrong, tracestate: 'a=1' }), null, String(wrong))
  t.equal(traceOf({ traceparent: [traceparent] }), null)
  t.equal(traceOf({ tracestate: 'a=1' }), null)
})

t.test('a future version is forwarded as the known one', async (t) => {
  const ids = traceparent.slice(2, -2)
  for (const [given, passed] of [['01', '01'], ['cc', '07-what-is-to-come'], ['fe', '03-'], ['10', 'ff-x']] as const) {
    t.same(traceOf({ traceparent: given + ids + passed, tracestate: 'a=1' }), { traceparent: `00${ids}01`, tracestate: 'a=1' })
  }
  t.same(traceOf({ traceparent: `01${ids}fe` }), { traceparent: `00${ids}00` })
  for (
    const wrong of [
      `01${ids}01x`,
      `01${ids}01.more`,
      `01${ids}0`,
      `0${ids}01`,
      `0x${ids}01`,
      `01${ids}0G`,
      `00${ids}01-`,
      `ff${ids}01-more`,
      `01${ids}01, 01${ids}01`,
      `01-${'0'.repeat(32)}-00f067aa0ba902b7-01`
    ]
  ) {
    t.equal(traceOf({ traceparent: wrong }), null, wrong)
  }
})

t.test('the state of a trace is forwarded if it is valid, and dropped otherwise', async (t) => {
  const longest = `a=${'x'.repeat(256)},b=${'x'.repeat(251)}`
  t.equal(longest.length, 512)
  const valid = [
    'a=1',
    'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    'tenant@system=1',
    '0a/b*c_d-e=x y!~',
    'a=1,,b=2',
    'a=1 ,\t b=2',
    longest,
    Array.from({ length: 32 }, (_, index) => `k${index}=1`).join(',')
  ]
  for (const tracestate of valid) t.same(traceOf({ traceparent, tracestate }), { traceparent, tracestate })
  const invalid = [
    '',
    ',',
    'a',
    'a=',
    '=1',
    'A=1',
    'a=1=2',
    'a=1,a=2',
    'a=1 \r\n',
    'a=\u00e9',
    'a b=1',
    '_a=1',
    `${longest}x`,
    `a=${'x'.repeat(257)}`,
    `${'k'.repeat(257)}=1`,
    Array.from({ length: 33 }, (_, index) => `k${index}=1`).join(',')
  ]
  for (const tracestate of invalid) t.same(traceOf({ traceparent, tracestate }), { traceparent }, tracestate)
  t.same(traceOf({ traceparent, tracestate: ['a=1'] }), { traceparent })
})
