import { test } from 'tap'
import { testServer } from '../helpers/server.js'
import { openBuiltIn, placed } from './built-in.js'
import { caller, refused, type Reply } from './caller.js'
import { sampleOf } from './samples.js'

/** Providers sign their bodies, which are verified first. The other endpoint is a page with its files. */
const others = ['POST /billing/webhook/payprov', 'POST /webhooks/billing/altprov', 'GET /ui']

const detailOf = (response?: Reply) => response?.body.details?.find(({ path }) => path === '/query/nonsense')

test('every built-in endpoint rejects unknown parameters', async (t) => {
  const { app, acme, platform, operations } = await openBuiltIn(t)
  const stranger = caller(t, app, { tenant: 'acme' })
  const partial = caller(t, app, { token: app.auth.signPartial({ sub: 'ada', tenant_id: 'acme' }) })
  t.ok(operations.length > 120, `${operations.length} endpoints`)
  for (const { target, body } of operations) {
    if (others.includes(target)) continue
    const at = placed(target)
    const request = body === undefined ? {} : { body: sampleOf(body) }
    const responses: Reply[] = []
    for (const ask of [acme, platform, stranger, partial]) {
      if (detailOf(responses.at(-1)) === undefined) responses.push(await ask(`${at}?nonsense=1`, request))
    }
    t.match(detailOf(responses.at(-1)), { message: /^"nonsense" is not a known field/, keyword: 'additionalProperties' }, target, {
      responses: responses.map(({ status, text }) => `${status} ${text.slice(0, 200)}`)
    })
  }

  t.match((await platform('GET /tenants?offest=1')).body.details, [{
    path: '/query/offest',
    message: '"offest" is not a known field, did you mean "offset"?'
  }], 'the error names the nearest parameter')
  refused(t, await stranger('GET /health?x'), 400, 'VALIDATION_FAILED', 'without a value')
  refused(t, await stranger('GET /health?__proto__=1'), 400, 'VALIDATION_FAILED', 'a name of Object.prototype')
  refused(t, await stranger('GET /health?constructor=1'), 400, 'VALIDATION_FAILED', 'and another one')
  refused(t, await stranger('GET /tenants?nonsense=1'), 401, 'TOKEN_MISSING', 'an anonymous caller learns nothing')
  refused(t, await acme('GET /tenants?nonsense=1'), 403, 'FORBIDDEN', 'nor does a caller without the permission')
  refused(
    t,
    await platform('POST /tenants?dryRun=true', { body: { id: 'initech', name: 'Initech' } }),
    400,
    'VALIDATION_FAILED',
    'a parameter of another endpoint'
  )
  t.match(await platform('GET /tenants/initech'), { status: 404 }, 'nothing was created')
})

test('a declared route without `request` accepts any parameter, one with `request` only its own', async (t) => {
  const app = await testServer(t, {
    routes: [
      { method: 'get', path: '/any', response: { a: '{{query.a || 0}}' } },
      { method: 'get', path: '/declared', request: { query: { a: { type: 'string' } } }, response: { a: '{{query.a}}' } }
    ]
  })
  const ask = caller(t, app)
  t.same((await ask('GET /any?a=1&b=2')).body, { a: '1' })
  t.same((await ask('GET /declared?a=1')).body, { a: '1' })
  refused(t, await ask('GET /declared?b=2'), 400, 'VALIDATION_FAILED')
})
