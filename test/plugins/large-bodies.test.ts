import t, { type Test } from 'tap'
import { turns } from '../../lib/concurrency/event-loop-yielder.js'
import { testApp } from '../helpers/app.js'
import { holdInPause } from '../helpers/pauses.js'

const largeBody = JSON.stringify({ text: 'x'.repeat(4096) })

/** An app whose caller belongs to the tenant in the header, and the tenants whose requests it has answered. */
async function open (t: Test) {
  const answered: unknown[] = []
  const { app } = await testApp(t, {
    plugins: { conventions: { root: true } },
    before (app) {
      app.decorateRequest('auth', null)
      app.addHook('onRequest', (request, _reply, done) => {
        const id = request.headers['x-test-tenant']
        if (typeof id === 'string') request.auth = { tenant_id: id, sub: 'u', permissions: [] }
        done()
      })
    },
    routes: (app) =>
      app.post('/', async (request) => {
        answered.push(request.headers['x-test-tenant'])
        return {}
      })
  })
  const send = (tenant: string, payload: string) =>
    app.inject({ method: 'POST', url: '/', headers: { 'x-test-tenant': tenant, 'content-type': 'application/json' }, payload })
  return { answered, send }
}

t.test('large bodies of a tenant with long work wait, and other requests do not', async (t) => {
  const { answered, send } = await open(t)
  const pause = holdInPause(t, 'busy')
  const large = send('busy', largeBody)
  while (turns.yielder('tenant busy').waiting === 0) await new Promise(setImmediate)
  t.equal((await send('busy', '{}')).statusCode, 200, 'a small body of the same tenant')
  t.equal((await send('other', largeBody)).statusCode, 200, "another tenant's large body")
  t.strictSame(answered, ['busy', 'other'])
  pause.end()
  t.equal((await large).statusCode, 200)
})

t.test('a tenant may have 1000 waiting large bodies, and gets 429 for more', async (t) => {
  const { answered, send } = await open(t)
  const pause = holdInPause(t, 'flood')
  const large = Array.from({ length: 1000 }, () => send('flood', largeBody))
  while (turns.yielder('tenant flood').waiting < 1000) await new Promise(setImmediate)
  const refused = await send('flood', largeBody)
  t.match([refused.statusCode, refused.headers['retry-after'], refused.json()], [429, '1', {
    code: 'TENANTRY_RESPONSES_BUSY',
    retryAfter: 1
  }])
  t.equal((await send('other', largeBody)).statusCode, 200)
  t.strictSame(answered, ['other'], 'no waiting body was handled')
  pause.end()
  for (const response of await Promise.all(large)) t.equal(response.statusCode, 200)
})
