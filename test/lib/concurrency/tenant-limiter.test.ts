/** Concurrency slots: a tenant with a slow service holds only its own. */
import { test } from 'tap'
import { createTenantLimiter } from '../../../lib/concurrency/tenant-limiter.js'
import { failure, retryIn, TenantryError } from '../../../lib/errors.js'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'

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
