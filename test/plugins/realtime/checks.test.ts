/** Checks of connections after changes of rights: in turns of the event loop, and without repetitions. */
import { test } from 'tap'
import { createYielder } from '../../../lib/concurrency/event-loop-yielder.js'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { Client } from '../../../plugins/realtime/types.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/until.js'
import { open } from './app.js'
import { coreOf, joined } from './core.js'

const acme = tenantRef('acme')
const claims = { sub: 'bob', tenant_id: acme }

/** Occupies the event loop for a tenth of a millisecond. */
function work (): void {
  const begun = performance.now()
  while (performance.now() - begun < 0.1);
}

const nextRound = () => new Promise<void>((resolve) => setImmediate(resolve))

function watch (client: Client, permissions: readonly string[]): Client {
  const id = String(client.watches.size)
  client.watches.set(id, {
    id,
    client,
    tenant: client.identity.tenant,
    table: 'notes',
    conditions: [],
    permissions,
    recording: { start: 0, end: () => {} },
    isAllowed: true,
    isLive: true,
    isClosed: false
  })
  return client
}

test('checks of many connections take turns of the tenant, so that other requests run between them', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  let checked = 0
  const verify = () => {
    work()
    checked++
    return claims
  }
  for (let index = 0; index < 300; index++) await joined(app, core, { claims, verify })
  const all = core.recheck(acme)
  await nextRound()
  t.ok(checked > 0)
  t.ok(checked < 300, 'another callback runs before all are checked')
  t.equal(createYielder(acme).waiting, 1, 'the check waits for a turn of the tenant')
  await all
  t.equal(checked, 300)
})

test('changes during a check are one more check, which includes every connection', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  const checks: number[] = []
  const notices: number[] = []
  for (let index = 0; index < 200; index++) {
    checks.push(0)
    notices.push(0)
    let own = 0
    const verify = () => {
      work()
      checks[index] = ++own
      notices[index] = sent
      return claims
    }
    await joined(app, core, { claims, verify })
  }
  let sent = 1
  const all = [core.recheck(acme)]
  for (let round = 0; round < 3; round++) {
    await nextRound()
    t.ok(notices.includes(0), 'the first check is running')
    for (let index = 0; index < 5; index++) {
      sent++
      all.push(core.recheck(acme))
    }
  }
  t.equal(createYielder(acme).waiting, 1, 'one check runs')
  await Promise.all(all)
  t.same([...new Set(notices)], [sent], 'each connection was checked after the last change')
  t.ok(Math.max(...checks) <= 2, `${Math.max(...checks)} checks of a connection`)
  t.ok(checks.includes(1), 'a connection that waited for its check had only one')
})

test('a change that arrives while a connection is being looked up is one more check of it', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  const ready = gate()
  let checks = 0
  const verify = async () => {
    checks++
    await ready.opened
    return claims
  }
  await joined(app, core, { claims, verify })
  const first = core.recheck(acme)
  await nextRound()
  const others = [core.recheck(acme), core.recheck(acme)]
  await nextRound()
  t.equal(checks, 1)
  ready.open()
  await Promise.all([first, ...others])
  t.equal(checks, 2)
})

test('an ended session of a caller without a tenant checks only connections of such callers', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  const checked: string[] = []
  const join = async (sub: string, tenant?: string) => {
    const own = { sub, ...tenant !== undefined && { tenant_id: tenant } }
    await joined(app, core, {
      claims: own,
      verify: () => {
        checked.push(sub)
        return own
      }
    })
  }
  await join('of acme', 'acme')
  await join('of the platform')
  await core.recheck(platformRef)
  t.same(checked, ['of the platform'])
  checked.length = 0
  await core.recheck(acme)
  t.same(checked, ['of acme', 'of the platform'])
  checked.length = 0
  await core.recheckAll()
  t.same(checked, ['of acme', 'of the platform'], 'a change for all')
  checked.length = 0
  await core.recheck(tenantRef('globex'))
  t.same(checked, [], 'another tenant')
})

test('a check asks once for each list of permissions, for any number of rooms and watches', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app, { 'chat-*': { join: ['chat:join'] }, 'news-*': { join: ['news:read'] }, lobby: {} })
  const client = await joined(app, core)
  for (let index = 0; index < 50; index++) {
    client.rooms.add(`chat-${index}`)
    client.rooms.add(`news-${index}`)
  }
  client.rooms.add('lobby')
  const permissions = ['notes:read']
  for (let index = 0; index < 100; index++) watch(client, permissions)
  let asked = 0
  t.intercept(app.auth, 'permissionsOf', {
    value: () => {
      asked++
      return new Set(['chat:join'])
    }
  })
  await core.recheck(acme)
  t.equal(asked, 3)
  t.ok([...client.watches.values()].every(({ isAllowed }) => !isAllowed), 'all watches are silent')
  t.equal(client.rooms.size, 51, 'it has left the rooms of the lost permission, and no others')
})

test('a late answer of an earlier check does not end the silence of a watch', async (t) => {
  const { app } = await open(t)
  const core = coreOf(app)
  const client = watch(await joined(app, core), ['notes:read'])
  const ready = gate()
  let asked = 0
  t.intercept(app.auth, 'permissionsOf', {
    value: async () => {
      if (++asked > 1) return new Set()
      await ready.opened
      return new Set(['notes:read'])
    }
  })
  const isAllowed = () => client.watches.get('0')?.isAllowed
  const first = core.recheck(acme)
  await until('the first check asks', () => asked === 1)
  const second = core.recheck(acme)
  await core.expire()
  await until('the expiry of tokens continues the checks', () => isAllowed() === false)
  ready.open()
  await Promise.all([first, second])
  t.equal(isAllowed(), false)
})
