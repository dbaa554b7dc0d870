/** The expiry of tokens. */
import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { failure, retryIn } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { plansOf } from '../../../plugins/plans/plans-of.js'
import { createMemberStore } from '../../../plugins/realtime/member-store.js'
import { createReader } from '../../../plugins/realtime/reader.js'
import { createRecordedStore } from '../../../plugins/realtime/recorded-store.js'
import { createRecorder } from '../../../plugins/realtime/recorder.js'
import { createRooms } from '../../../plugins/realtime/rooms.js'
import { createCore } from '../../../plugins/realtime/service.js'
import { createChangeStore } from '../../../plugins/realtime/store.js'
import type { Identity } from '../../../plugins/realtime/types.js'
import { createWatches } from '../../../plugins/realtime/watches.js'
import { open } from './app.js'

test('an expired token ends its connection while the key of another connection cannot be looked up', async (t) => {
  const { app } = await open(t)
  const { engine, log } = app
  const store = createChangeStore(engine)
  const usage = () => null
  const core = createCore({
    app,
    usage,
    watches: createWatches({
      app,
      usage,
      store,
      reader: createReader({ store, tableOf: () => undefined, lost: () => {}, log }),
      recorder: createRecorder({ store: createRecordedStore(app.db), schema: 'public', retentionSeconds: 1, lost: () => {}, log }),
      listed: {}
    }),
    rooms: createRooms({
      store: createMemberStore(app.db, (tenant) => engine.kyselyFor(tenant), randomUUID()),
      bus: { open: async () => {}, hear: async () => {}, rest: () => {}, send: () => true, close: async () => {} },
      plans: plansOf(app),
      isLimited: () => false,
      maxMessageBytes: 1000,
      log
    }),
    roomRules: undefined
  })
  const { createdAt = new Date(0) } = await app.tenants.get('acme') ?? {}
  const closed: number[] = []
  const join = async (code: number, verify: Identity['verify']) => {
    const outlet = { send: () => {}, isBehind: false, drained: async () => {}, close: () => closed.push(code), bytes: 0 }
    await core.open(outlet, { claims: { sub: 'bob' }, tenant: tenantRef('acme'), createdAt, verify, count: async () => {} })
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
