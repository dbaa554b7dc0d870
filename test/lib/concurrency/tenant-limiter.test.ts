/** Concurrency slots: a tenant with a slow service holds only its own. */
import { test } from 'tap'
import { createTenantLimiter } from '../../../lib/concurrency/tenant-limiter.js'
import { failure, retryIn, TenantryError } from '../../../lib/errors.js'
import { type Owner, platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { until } from '../../helpers/until.js'

const bounds = {
  maxOfTenant: 10,
  maxInAll: 100,
  tooManyOfTenant: () => failure('uploadsBusy', retryIn(1)),
  tooManyInAll: () => failure('providerBusy')
}

/** Work that runs until it is released. */
function slow () {
  let finish = (): void => {}
  const promise = new Promise<string>((resolve) => {
    finish = () => resolve('done')
  })
  return { work: () => promise, finish }
}

async function refusal (promise: Promise<unknown>): Promise<string | null> {
  try {
    await promise
    return null
  } catch (error) {
    if (!(error instanceof TenantryError)) throw error
    return error.code
  }
}

test('each tenant has ten slots of its own', async (t) => {
  const places = createTenantLimiter(bounds)
  t.teardown(() => places.close())
  const held = Array.from({ length: 10 }, slow)
  const running = held.map(({ work }) => places.run(tenantRef('acme'), work))
  t.equal(await refusal(places.run(tenantRef('acme'), async () => 'never')), 'TENANTRY_UPLOADS_BUSY')
  t.equal(await places.run(tenantRef('globex'), async () => 'at once'), 'at once')
  held[0]?.finish()
  t.equal(await running[0], 'done')
  t.equal(await places.run(tenantRef('acme'), async () => 'at once'), 'at once', 'a released slot is free')
  await t.rejects(
    places.run(tenantRef('acme'), async () => {
      throw new TypeError('fails')
    }),
    TypeError
  )
  t.equal(await places.run(tenantRef('acme'), async () => 'at once'), 'at once', 'a slot is released when its work fails')
  for (const { finish } of held) finish()
  t.same(await Promise.all(running), Array.from({ length: 10 }, () => 'done'))
})

test('tenants with many slots leave the last ones to tenants without any', async (t) => {
  const places = createTenantLimiter(bounds)
  const held: ReturnType<typeof slow>[] = []
  const running: Promise<unknown>[] = []
  const ended: string[] = []
  for (let index = 0; index < 100; index++) {
    const one = slow()
    held.push(one)
    running.push(
      refusal(places.run(tenantRef(`hostile-${index % 10}`), one.work)).then((refused) => {
        if (refused !== null) ended.push(refused)
      })
    )
  }
  t.equal(await places.run(tenantRef('quiet'), async () => 'at once'), 'at once')
  places.close()
  for (const { finish } of held) finish()
  await Promise.all(running)
  t.ok(ended.length > 0 && ended.length < 20, `${ended.length} of them wait`)
  t.same(new Set(ended), new Set(['TENANTRY_PROVIDER_BUSY']), 'they are rejected when the wait takes too long')
})

test('the platform may use all slots except the reserved ones', async (t) => {
  const places = createTenantLimiter(bounds)
  t.teardown(() => places.close())
  const held = Array.from({ length: 50 }, slow)
  const running = held.map(({ work }) => places.run(platformRef, work))
  t.equal(await places.run(platformRef, async () => 'at once'), 'at once')
  for (const { finish } of held) finish()
  await Promise.all(running)
})

test('an address without a token has its own turns, even if it names many tenants', async (t) => {
  const places = createTenantLimiter({ ...bounds, maxInAll: 2, maxOfAddress: 5, maxRunningOfAddress: 1, maxWait: 60_000 })
  t.teardown(() => places.close())
  const began: string[] = []
  const held = slow()
  const run = (tenant: string, address?: string) =>
    places.run(tenantRef(tenant), () => {
      began.push(tenant)
      return held.work()
    }, address)
  const many = ['a', 'b', 'c', 'd', 'e'].map((tenant) => run(tenant, '192.0.2.1'))
  t.equal(await refusal(run('f', '192.0.2.1')), 'TENANTRY_UPLOADS_BUSY')
  const other = run('other', '192.0.2.2')
  await until('two run', () => began.length === 2)
  t.strictSame(began, ['a', 'other'])
  const next = run('next')
  held.finish()
  await Promise.all([...many, other, next])
  t.equal(began[2], 'next', 'before the further ones of the address')
})

test('callers without a token have few places of an address and half of a tenant, in turns apart from those of its own callers', async (t) => {
  const places = createTenantLimiter({ ...bounds, maxInAll: 2, maxOfAddress: 3, maxWait: 60_000 })
  t.teardown(() => places.close())
  const [acme, globex] = [tenantRef('acme'), tenantRef('globex')]
  const began: string[] = []
  const held = new Map<string, () => void>()
  const run = (name: string, tenant: Owner, address?: string) =>
    refusal(places.run(tenant, async () => {
      began.push(name)
      await new Promise<void>((resolve) => held.set(name, resolve))
    }, address))
  const finish = (name: string) => held.get(name)?.()
  const open = ['one', 'two', 'three'].map((name) => run(name, acme, '192.0.2.1'))
  const own = run('own', acme)
  await until('two places are taken', () => began.length === 2)
  t.strictSame(began, ['one', 'own'], 'one call of each kind runs')
  t.equal(await run('further', acme, '192.0.2.1'), 'TENANTRY_UPLOADS_BUSY')
  t.equal(await run('further', globex, '192.0.2.1'), 'TENANTRY_UPLOADS_BUSY', 'the number of an address is that of all tenants')
  open.push(run('four', acme, '192.0.2.2'), run('five', acme, '192.0.2.2'))
  t.equal(await run('further', acme, '192.0.2.3'), 'TENANTRY_UPLOADS_BUSY', 'five are half of the ten of the tenant')
  const next = run('own next', acme)
  finish('own')
  t.equal(await own, null)
  await until('a place is taken again', () => began.length === 3)
  t.strictSame(began, ['one', 'own', 'own next'], 'the next one of the tenant does not wait for four others')
  finish('own next')
  for (const name of ['one', 'two', 'three', 'four', 'five']) {
    await until(`${name} runs`, () => held.has(name))
    finish(name)
  }
  t.same(await Promise.all([next, ...open]), Array(6).fill(null))
  const again = run('again', acme, '192.0.2.1')
  await until('ended calls no longer count', () => began.at(-1) === 'again')
  finish('again')
  t.equal(await again, null)
})
