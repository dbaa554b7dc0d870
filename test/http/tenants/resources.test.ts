/** Resources: no document and no request of a tenant starves others of CPU or memory. */
import { test } from 'tap'
import { refused } from '../caller.js'
import { createWorld, type Routes, save, trySave } from './world.js'

const runsAway = 30_000 // ms of CPU time: a runaway takes minutes, and everything else here less than a tenth of this on a slow machine

/** CPU time of the work in milliseconds, independent of the machine's load. */
async function cost (work: () => Promise<unknown>): Promise<number> {
  const start = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}

const catastrophic = [
  '(a+)+$',
  '^(a+)+$',
  '(a|a)*$',
  '^(a|aa)+$',
  '(.*a){20}$',
  '^(([a-z])+.)+[A-Z]([a-z])+$',
  '(a*)*b',
  '(x+x+)+y',
  '^(\\w+\\s?)*$',
  '([a-zA-Z]+)*@',
  '(.*)*(.*)*(.*)*x',
  '^(a?){50}a{50}$',
  '(a{1,100}){1,100}$',
  'a{1,1000}{1,1000}',
  '(?=a+)a+$',
  '(?<!a)b',
  '(a+)\\1',
  '\\1',
  '(?<n>a)\\k<n>',
  '(((((((((((a*)*)*)*)*)*)*)*)*)*)*',
  '[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*1',
  '\\p{L}+\\p{L}+\\p{L}+1',
  '(?:a|b|ab)*c',
  '^(?:.*,){30}x$'
]
const texts = [
  'a'.repeat(50_000),
  `${'a'.repeat(50_000)}!`,
  `${'aa '.repeat(10_000)}!`,
  `${'x'.repeat(50_000)}z`,
  `${'ab'.repeat(20_000)}!`,
  `${'a,'.repeat(20_000)}y`
]

test('catastrophic regular expressions are rejected or run in linear time', async (t) => {
  const { attacker, victim } = await createWorld(t)
  let accepted = 0
  for (const pattern of catastrophic) {
    for (const rule of [{ type: 'string', pattern }, { type: 'array', items: { type: 'string', pattern } }]) {
      const time = await cost(async () => {
        if (
          !await trySave(t, attacker, {
            routes: [{ method: 'post', path: '/x', request: { body: { text: rule } }, response: { ok: true } }]
          }, pattern)
        ) return
        accepted++
        for (const text of texts) await attacker('POST /x', { body: { text: rule.type === 'array' ? [text] : text } })
      })
      t.ok(time < runsAway, `${pattern} does not run away`)
    }
  }
  t.ok(accepted > 0, `${accepted} of them run in linear time`)
  for (
    const pattern of [
      '(',
      '[',
      'a{2,1}',
      '*',
      '\\',
      '(?<n>',
      '\u0000'.repeat(10),
      'x'.repeat(100_000),
      `${'('.repeat(1000)}${')'.repeat(1000)}`,
      `${'a?'.repeat(1000)}`,
      'a{1000000}',
      '((a{1000}){1000}){1000}'
    ]
  ) {
    const time = await cost(() =>
      trySave(t, attacker, {
        routes: [{ method: 'post', path: '/x', request: { body: { text: { type: 'string', pattern } } }, response: { ok: true } }]
      }, pattern.slice(0, 30))
    )
    t.ok(time < runsAway, pattern.slice(0, 30))
  }
  for (
    const expression of [
      'item.title.matches("(a+)+$")',
      'item.title.matches(item.title)',
      '[1,2,3].map(x, [1,2,3].map(y, [1,2,3].map(z, x * y * z)))',
      'item.tags.all(x, item.tags.all(y, x == y))',
      `${'('.repeat(5000)}1${')'.repeat(5000)}`,
      `${'1+'.repeat(20_000)}1`,
      `${'!'.repeat(20_000)}true`,
      `"${'x'.repeat(60_000)}" + "${'x'.repeat(3000)}"`
    ]
  ) {
    const time = await cost(() =>
      trySave(t, attacker, {
        routes: [{
          method: 'get',
          path: '/x',
          transform: { fields: { x: expression } },
          queries: [{ table: 'notes', operation: 'select' }]
        }]
      }, expression.slice(0, 40))
    )
    t.ok(time < runsAway, expression.slice(0, 40))
  }
  t.match(await victim('GET /tenant/info'), { status: 200 })
})

const template = (count: number) => '{{query.x}}'.repeat(count)
const nested = (depth: number): unknown => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
const small = (index: number): Routes[number] => ({
  method: 'get',
  path: `/r${index}/:id`,
  description: 'x'.repeat(100),
  response: { id: '{{params.id}}' }
})

test('large documents do not block the server', async (t) => {
  const { attacker, victim } = await createWorld(t)
  const documents: readonly (readonly [what: string, raw: string, statuses: readonly number[]])[] = ([
    ['500 routes', { routes: Array.from({ length: 500 }, (_, index) => small(index)) }, [200]],
    ['501 routes', { routes: Array.from({ length: 501 }, (_, index) => small(index)) }, [400]],
    ['50,000 routes', { routes: Array.from({ length: 50_000 }, () => ({})) }, [400]],
    ['10,000 templates', {
      routes: Array.from({ length: 500 }, (_, index) => ({ method: 'get', path: `/r${index}`, response: { said: template(20) } }))
    }, [200]],
    ['10,020 templates', {
      routes: Array.from(
        { length: 500 },
        (_, index) => ({ method: 'get', path: `/r${index}`, response: { said: template(index === 0 ? 40 : 20) } })
      )
    }, [400]],
    ['10,000 templates in one text', { routes: [{ method: 'get', path: '/x', response: { said: template(10_000) } }] }, [400]],
    ['10,000 alternatives in one template', {
      routes: [{ method: 'get', path: '/x', response: { said: `{{${Array.from({ length: 8000 }, () => 'a.b').join('||')}}}` } }]
    }, [400]],
    ['a path of 10,000 members', { routes: [{ method: 'get', path: '/x', response: { said: `{{body${'.a'.repeat(10_000)}}}` } }] }, [
      200,
      400
    ]],
    ['a path with an enormous index', { routes: [{ method: 'get', path: '/x', response: { said: '{{body.a[99999999999999999999]}}' } }] }, [
      200,
      400
    ]],
    ['a mapping of 30 levels', { routes: [{ method: 'get', path: '/x', response: nested(30) }] }, [200]],
    ['a mapping of 40 levels', { routes: [{ method: 'get', path: '/x', response: nested(40) }] }, [400]],
    ['a mapping of 1,000 levels', { routes: [{ method: 'get', path: '/x', response: nested(1000) }] }, [400]],
    ['settings of 15 levels', { settings: { a: nested(13) } }, [200]],
    ['settings of 3,000 levels', { settings: nested(3000) }, [400]],
    ['filters of 1,000 levels', {
      routes: [{
        method: 'get',
        path: '/x',
        queries: [{
          table: 'notes',
          operation: 'select',
          filters: [JSON.parse(`${'{"not":'.repeat(1000)}{"column":"id","value":1}${'}'.repeat(1000)}`)]
        }]
      }]
    }, [400]],
    ['2,000 filters', {
      routes: [{
        method: 'get',
        path: '/x',
        queries: [{
          table: 'notes',
          operation: 'select',
          filters: Array.from({ length: 2000 }, (_, index) => ({ column: 'title', value: `{{query.q${index}}}`, optional: true }))
        }]
      }]
    }, [200, 400]],
    ['1,000 embeds', {
      routes: [{
        method: 'get',
        path: '/x',
        queries: [{
          table: 'people',
          operation: 'select',
          select: Array.from({ length: 1000 }, (_, index) => `n${index}:notes(*)`).join(',')
        }]
      }]
    }, [200, 400]],
    ['embeds of 200 levels', {
      routes: [{
        method: 'get',
        path: '/x',
        queries: [{ table: 'people', operation: 'select', select: `${'notes(author:people('.repeat(100)}id${'))'.repeat(100)}` }]
      }]
    }, [200, 400]],
    ['5,000 queries', {
      routes: [{
        method: 'get',
        path: '/x',
        queries: Array.from({ length: 5000 }, (_, index) => ({ table: 'notes', operation: 'select', alias: `a${index}` }))
      }]
    }, [400]],
    ['a cycle of references to itself', {
      routes: [{
        method: 'get',
        path: '/x',
        queries: [{ table: 'notes', operation: 'select', alias: 'a', filters: [{ column: 'id', value: '{{results.a.id}}' }] }]
      }]
    }, [400]],
    ['10,000 rules of endpoints', {
      routes: [small(1)],
      rateLimit: {
        enabled: true,
        default: { max: 10, windowMs: 1000 },
        perEndpoint: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`/r${index}`, { max: 1, windowMs: 1000 }]))
      }
    }, [400]],
    ['members of Object.prototype', { routes: [small(1)], __proto__x: 1 }, [400]],
    ['a document that is not an object', [], [400]],
    ['a document that is a text', 'x', [400]],
    ['null', null, [400]],
    ['routes that are not an array', { routes: { length: 1e9 } }, [400]]
  ] as const).map(([label, document, statuses]) => [label, JSON.stringify(document), statuses] as const)
  const padding = (bytes: number) => `${' '.repeat(bytes - 2)}{}`
  const more = [
    ['1 MB', padding(1_048_576), [200]],
    ['1 MB and a byte', padding(1_048_577), [413]],
    ['100,000 levels of arrays', `{"settings":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, [400]],
    ['100,000 levels of objects', `{"settings":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, [400]],
    ['a member __proto__', '{"routes":[],"__proto__":{"admin":true}}', [400]],
    ['a member constructor.prototype', '{"routes":[],"constructor":{"prototype":{"admin":true}}}', [400]],
    ['a member __proto__ in settings', '{"settings":{"__proto__":{"polluted":true}}}', [400, 200]],
    ['a repeated member', '{"routes":[],"routes":[{"method":"get","path":"/health","response":{}}]}', [400, 409]],
    ['half a document', '{"routes":[', [400]]
  ] as const
  for (const [label, raw, statuses] of [...documents, ...more]) {
    let status = 0
    let text = ''
    const time = await cost(async () => {
      ;({ status, text } = await attacker('POST /tenant/config', { raw }))
    })
    t.ok(statuses.includes(status), `${label}: ${status}`, statuses.includes(status) ? {} : { text: text.slice(0, 500) })
    t.ok(time < runsAway, `${label} does not run away`)
    if (status === 200) t.not((await attacker('GET /x?q1=1')).status, 500, label)
  }
  t.notOk(Object.hasOwn(Object.prototype, 'admin') || Object.hasOwn(Object.prototype, 'polluted'))
  t.match(await victim('GET /tenant/info'), { status: 200 })
})

test('a rejected document leaves the previous one in place', async (t) => {
  const { attacker } = await createWorld(t)
  await save(t, attacker, [{ method: 'get', path: '/x', response: { version: 1 } }])
  for (
    const body of [{ routes: [{ method: 'get', path: '/x', response: { version: '{{env.NONE}}' } }] }, {
      routes: [{ method: 'get', path: '/health', response: {} }]
    }, { routes: 'x' }]
  ) {
    t.ok([400, 409].includes((await attacker('POST /tenant/config', { body })).status))
    t.same((await attacker('GET /x')).body, { version: 1 })
  }
  t.match(await attacker('POST /tenant/config?dryRun=true', { body: { routes: [] } }), { status: 200, body: { version: 1 } })
  t.same((await attacker('GET /x')).body, { version: 1 })
  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      attacker('POST /tenant/config', {
        headers: { 'if-match': '"1"' },
        body: { routes: [{ method: 'get', path: '/x', response: { version: `of ${index}` } }] }
      }))
  )
  const saved = responses.flatMap(({ status }, index) => status === 200 ? [index] : [])
  t.equal(saved.length, 1, 'of twenty replacements of one version, one is saved')
  for (const response of responses) if (response.status !== 200) refused(t, response, 412, 'PRECONDITION_FAILED')
  t.same((await attacker('GET /x')).body, { version: `of ${saved[0]}` })
})
