/** Places: a tenant whose provider is slow holds its own, and no others. */
import { test } from 'tap'
import { TenantryError } from '../../../lib/errors.js'
import { createPlaces } from '../../../plugins/tenant-billing/places.js'

/** Work that goes on until it is let go. */
function slow () {
  let finish = (): void => {}
  const promise = new Promise<string>((resolve) => { finish = () => resolve('done') })
  return { work: () => promise, finish }
}

async function refusal (promise: Promise<unknown>): Promise<{ code: string, status: number, retryAfter: unknown } | null> {
  try {
    await promise
    return null
  } catch (error) {
    if (!(error instanceof TenantryError)) throw error
    return { code: error.code, status: error.statusCode, retryAfter: error.extras['retryAfter'] }
  }
}

const ofTenant = { code: 'TENANTRY_RATE_LIMITED', status: 429, retryAfter: 1 }

test('a tenant has ten places, and another one has its own', async (t) => {
  const places = createPlaces()
  t.teardown(() => places.close())
  const held = Array.from({ length: 10 }, slow)
  const running = held.map(({ work }) => places.run('acme', work))
  t.same(await refusal(places.run('acme', async () => 'never')), ofTenant)
  t.equal(await places.run('globex', async () => 'at once'), 'at once')
  held[0]?.finish()
  t.equal(await running[0], 'done')
  t.equal(await places.run('acme', async () => 'at once'), 'at once', 'a place that is left is free')
  await t.rejects(places.run('acme', async () => { throw new TypeError('fails') }), TypeError)
  t.equal(await places.run('acme', async () => 'at once'), 'at once', 'so is one whose work failed')
  for (const { finish } of held) finish()
  t.same(await Promise.all(running), Array.from({ length: 10 }, () => 'done'))
})

test('tenants that hold many places leave the last ones to those that hold none', async (t) => {
  const places = createPlaces()
  const held: ReturnType<typeof slow>[] = []
  const running: Promise<unknown>[] = []
  const ended: string[] = []
  for (let index = 0; index < 100; index++) {
    const one = slow()
    held.push(one)
    running.push(refusal(places.run(`hostile-${index % 10}`, one.work)).then((refused) => { if (refused !== null) ended.push(refused.code) }))
  }
  t.equal(await places.run('quiet', async () => 'at once'), 'at once')
  places.close()
  for (const { finish } of held) finish()
  await Promise.all(running)
  t.ok(ended.length > 0 && ended.length < 20, `${ended.length} of them wait`)
  t.same(new Set(ended), new Set(['TENANTRY_PROVIDER_BUSY']), 'and are refused when it takes too long')
})
