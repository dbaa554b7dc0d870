/** The expiry of tokens. */
import { test } from 'tap'
import { failure, retryIn } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { Identity } from '../../../plugins/realtime/types.js'
import { open } from './app.js'
import { coreOf, joined } from './core.js'

test('an expired token ends its connection while the key of another connection cannot be looked up', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  const closed: number[] = []
  const join = async (code: number, verify: Identity['verify']) => {
    await joined(app, core, { claims: { sub: 'bob' }, verify, closed: () => closed.push(code) })
  }
  let lookUps = 0
  await join(1, () => {
    lookUps++
    return new Promise(() => {})
  })
  await join(2, () => {
    throw failure('tokenExpired')
  })
  for (const error of [failure('rateLimited', retryIn(1)), failure('databaseUnavailable')]) {
    await join(3, () => {
      throw error
    })
  }
  core.expire().catch(() => {})
  core.expire().catch(() => {})
  await new Promise(setImmediate)
  t.ok(closed.includes(2))
  t.notOk(closed.includes(1))
  t.notOk(closed.includes(3), 'a check that fails for another reason is tried again')
  t.equal(lookUps, 1, 'one look-up at a time')
})

test('many connections whose look-ups are slow do not resume together, and delay no other tenant', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  let lookUps = 0
  const verify = () => {
    lookUps++
    return new Promise<never>(() => {})
  }
  for (let index = 0; index < 150; index++) await joined(app, core, { verify })
  let isClosed = false
  await joined(app, core, {
    tenant: tenantRef('globex'),
    verify: () => {
      throw failure('tokenExpired')
    },
    closed: () => {
      isClosed = true
    }
  })
  await core.expire()
  t.equal(lookUps, 100, 'a tenant has few look-ups in one walk')
  t.ok(isClosed)
  await core.expire()
  t.equal(lookUps, 150, 'the others follow')
})

test('the expiry of many tokens leaves turns of the event loop to requests', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  let verified = 0
  const claims = { sub: 'bob' }
  const verify = () => {
    const begun = performance.now()
    while (performance.now() - begun < 0.1);
    verified++
    return claims
  }
  for (let index = 0; index < 300; index++) await joined(app, core, { claims, verify })
  const before = new Promise<number>((resolve) => setImmediate(() => resolve(verified)))
  await core.expire()
  t.equal(verified, 300)
  t.ok(await before < 300, 'another callback ran before all were verified')
})
