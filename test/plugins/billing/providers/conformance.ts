/** The behaviour of every payment provider's adapter, tested with a local server that speaks the provider's protocol. */
import type { Test } from 'tap'
import { catalogue } from '../../../../lib/errors.js'
import { tenantRef } from '../../../../lib/identity/tenant-ref.js'
import type { Snapshot } from '../../../../plugins/billing/providers/provider.js'
import type { Misfortune, World } from '../../../helpers/payment-world.js'
import { is, one, rejected, textOf } from './conformance-checks.js'
import { webhooks } from './conformance-webhooks.js'

const day = 86_400_000 // ms
const minute = 60_000 // ms
const pro = { name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' } as const
const team = { name: 'Team', amount: 9900, currency: 'usd', cycle: 'monthly' } as const

/** Runs the suite; `make` starts a new, empty server each time, which ends with the test. */
export async function conformance (t: Test, make: (t: Test) => Promise<World>): Promise<void> {
  await t.test('checkouts', async (t) => {
    await checkouts(t, await make(t))
  })
  await t.test('subscriptions', async (t) => {
    await subscriptions(t, await make(t))
  })
  await t.test('changes', async (t) => {
    await changes(t, await make(t))
  })
  await t.test('failures', async (t) => {
    await failures(t, await make(t))
  })
  await t.test('webhooks', async (t) => {
    await webhooks(t, await make(t))
  })
}

async function checkouts (t: Test, world: World): Promise<void> {
  const provider = await world.open()
  const sold = world.sell(pro)
  const input = {
    tenant: tenantRef('acme'),
    deletedAt: null,
    email: 'pay@acme.example',
    product: sold.product,
    successUrl: 'https://app.example/billing/success?session={CHECKOUT_ID}',
    cancelUrl: 'https://app.example/billing/cancel',
    idempotencyKey: 'key-1'
  }

  await t.test("a checkout has an id, an address and the product's price; the tenant is the payer", async (t) => {
    const checkout = await provider.checkout(input)
    t.match(checkout, { amount: 2900, currency: 'usd' })
    t.ok(checkout.id)
    t.ok(URL.canParse(checkout.url))
    const id = world.pay(checkout.id)
    t.match(await provider.subscriptions(tenantRef('acme')), [{ id, tenant: tenantRef('acme'), status: 'active', productIds: [sold.product, sold.price] }])
  })

  await t.test('the product may be named by its price', async (t) => {
    t.match(await provider.checkout({ ...input, tenant: tenantRef('byprice'), product: sold.price, idempotencyKey: 'key-2' }), {
      amount: 2900,
      currency: 'usd'
    })
  })

  await t.test('the e-mail address may be missing', async (t) => {
    t.match(await provider.checkout({ ...input, tenant: tenantRef('nomail'), email: undefined, idempotencyKey: 'key-3' }), { amount: 2900 })
  })

  await t.test('two tenants with one e-mail address have separate subscriptions', async (t) => {
    const own = await provider.checkout({ ...input, tenant: tenantRef('globex'), idempotencyKey: 'key-4' })
    const id = world.pay(own.id)
    t.match(await provider.subscriptions(tenantRef('globex')), [{ id, tenant: tenantRef('globex') }])
    t.equal((await provider.subscriptions(tenantRef('acme'))).length, 1)
  })

  await t.test('a later tenant with the id of a deleted one is another customer', async (t) => {
    const buy = async (email: string, deletedAt: Date | null) => {
      const again = { ...input, tenant: tenantRef('again'), email, deletedAt, idempotencyKey: email }
      return world.pay((await provider.checkout(again)).id)
    }
    const earlier = await buy('pay@earlier.example', null)
    world.advance(minute)
    const deletedAt = new Date(world.now())
    world.advance(minute)
    const later = [await buy('pay@later.example', deletedAt), await buy('also@later.example', deletedAt)]
    const found = await provider.subscriptions(tenantRef('again'))
    t.equal(found.length, 3)
    const customerOf = (subscription: string | undefined) => found.find(({ id }) => id === subscription)?.customerId
    t.equal(customerOf(later[0]), customerOf(later[1]))
    t.not(customerOf(later[0]), customerOf(earlier))
  })

  await t.test('an unknown product is rejected', async (t) => {
    const error = await rejected(provider.checkout({ ...input, product: '00000000-0000-4000-8000-000000000000', idempotencyKey: 'key-5' }))
    t.ok([catalogue.notFound.code, catalogue.providerRefused.code].includes(error.code), error.code)
  })

  await t.test('all attempts of a checkout use one idempotency key, another checkout uses another one', async (t) => {
    const keyOf = async (idempotencyKey: string) => {
      world.forget()
      world.misfortune('lost')
      await provider.checkout({ ...input, idempotencyKey })
      const keys = world.calls.filter(({ method }) => method === 'POST').map(({ headers }) => headers['idempotency-key'])
      t.equal(keys.length, 2)
      t.equal(new Set(keys).size, 1)
      t.type(keys[0], 'string')
      return keys[0]
    }
    t.not(await keyOf('key-6'), await keyOf('key-7'))
  })
}

async function subscriptions (t: Test, world: World): Promise<void> {
  const provider = await world.open()
  const sold = world.sell(pro)

  await t.test('a tenant without a customer has no subscriptions', async (t) => {
    t.same(await provider.subscriptions(tenantRef('nobody')), [])
  })

  await t.test("a subscription is reported with the provider's data", async (t) => {
    const id = world.subscribe('acme', sold)
    const [snapshot, ...others] = await provider.subscriptions(tenantRef('acme'))
    t.same(others, [])
    if (snapshot === undefined) return t.fail('no snapshot')
    t.match(snapshot, {
      id,
      tenant: tenantRef('acme'),
      status: 'active',
      productIds: [sold.product, sold.price],
      cancelAtPeriodEnd: false,
      endedAt: null,
      pastDueSince: null
    })
    t.ok(snapshot.customerId)
    t.equal(snapshot.startedAt.getTime(), world.now())
    t.equal(snapshot.periodStart.getTime(), world.now())
    t.ok(snapshot.periodEnd.getTime() >= world.now() + 28 * day)
    t.ok(snapshot.asOf.getTime() <= world.now())
  })

  await t.test("a subscription's whole life is reported: a trial, past due, recovered, unpaid, ended", async (t) => {
    const id = world.subscribe('life', sold, { trialDays: 14 })
    t.match(await one(provider, 'life'), { id, status: 'trialing' })
    world.advance(14 * day)
    world.change(id, 'renew')
    const paid = await one(provider, 'life')
    t.match(paid, { status: 'active', pastDueSince: null })
    world.advance(31 * day)
    world.change(id, 'pastDue')
    const late = await one(provider, 'life')
    t.equal(late.status, 'past_due')
    t.ok(
      late.pastDueSince instanceof Date && late.pastDueSince.getTime() <= world.now() &&
        late.pastDueSince.getTime() >= paid.periodEnd.getTime() - day
    )
    world.advance(day)
    world.change(id, 'recover')
    t.match(await one(provider, 'life'), { status: 'active', pastDueSince: null })
    world.advance(31 * day)
    world.change(id, 'pastDue')
    world.advance(day)
    world.change(id, 'unpaid')
    t.equal((await one(provider, 'life')).status, 'unpaid')
    world.change(id, 'end')
    const ended = await one(provider, 'life')
    t.equal(ended.status, 'canceled')
    t.equal(ended.endedAt?.getTime(), world.now())
  })

  await t.test('a later snapshot has a later time', async (t) => {
    const id = world.subscribe('order', sold)
    const first = await one(provider, 'order')
    world.advance(1000)
    world.change(id, 'end')
    t.ok((await one(provider, 'order')).asOf.getTime() > first.asOf.getTime())
  })

  await t.test("ended subscriptions are listed too, the newest first; other tenants' are not", async (t) => {
    const ids: string[] = []
    for (let count = 0; count < 12; count++) {
      world.advance(minute)
      const id = world.subscribe('many', sold)
      if (count < 11) world.change(id, 'end')
      ids.unshift(id)
    }
    t.same((await provider.subscriptions(tenantRef('many'))).map(({ id }) => id), ids)
    t.equal((await provider.subscriptions(tenantRef('acme'))).length, 1)
  })

  await t.test('at most 100 subscriptions are listed', async (t) => {
    for (let count = 0; count < 103; count++) world.change(world.subscribe('crowd', sold), 'end')
    world.advance(minute)
    const newest = world.subscribe('crowd', sold)
    const found = await provider.subscriptions(tenantRef('crowd'))
    t.equal(found.length, 100)
    t.equal(found[0]?.id, newest)
  })
}

async function changes (t: Test, world: World): Promise<void> {
  const provider = await world.open()
  const [small, large] = [world.sell(pro), world.sell(team)]

  await t.test('an immediate change of product is visible at once, and charged', async (t) => {
    const id = world.subscribe('now', small)
    t.match(await provider.changeProduct(id, large.product, 'now', 'now-1'), {
      id,
      tenant: tenantRef('now'),
      productIds: [large.product, large.price]
    })
    t.match(await one(provider, 'now'), { productIds: [large.product, large.price] })
    t.equal(world.charges(id), 2)
  })

  await t.test('the product may be named by its price', async (t) => {
    const id = world.subscribe('price', small)
    t.match(await provider.changeProduct(id, large.price, 'now', 'price-1'), { productIds: [large.product, large.price] })
  })

  await t.test("a change at the period's end applies then, and can be revoked", async (t) => {
    const id = world.subscribe('later', large)
    t.match(await provider.changeProduct(id, small.product, 'period_end', 'later-1'), {
      productIds: [large.product, large.price],
      cancelAtPeriodEnd: false
    })
    t.equal(world.charges(id), 1)
    t.match(await provider.resume(id, 'later-2'), { productIds: [large.product, large.price] })
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await one(provider, 'later'), { productIds: [large.product, large.price] })
    await provider.changeProduct(id, small.product, 'period_end', 'later-3')
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await one(provider, 'later'), { status: 'active', productIds: [small.product, small.price] })
    t.equal(await provider.resume(id, 'later-4'), null, 'then nothing is planned any more')
  })

  await t.test('an immediate change replaces a planned one', async (t) => {
    const [first, third] = [world.sell({ ...pro, name: 'First' }), world.sell({ ...team, name: 'Third' })]
    const id = world.subscribe('replaced', large)
    await provider.changeProduct(id, first.product, 'period_end', 'replaced-1')
    await provider.changeProduct(id, third.product, 'now', 'replaced-2')
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await one(provider, 'replaced'), { productIds: [third.product, third.price] })
  })

  await t.test('a change that cannot be paid keeps a planned one', async (t) => {
    const [first, third] = [world.sell({ ...pro, name: 'Kept' }), world.sell({ ...team, name: 'Declined' })]
    const id = world.subscribe('declined', large)
    await provider.changeProduct(id, first.product, 'period_end', 'declined-1')
    world.decline(true)
    is(t, await rejected(provider.changeProduct(id, third.product, 'now', 'declined-2')), 'providerRefused')
    world.decline(false)
    t.match(await one(provider, 'declined'), { status: 'active', productIds: [large.product, large.price] })
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await one(provider, 'declined'), { productIds: [first.product, first.price] })
  })

  await t.test('a cancellation lets the period run out, and can be revoked', async (t) => {
    const id = world.subscribe('cancel', small)
    const before = await one(provider, 'cancel')
    const canceled = await provider.cancel(id, 'cancel-1')
    t.match(canceled, { id, status: 'active', cancelAtPeriodEnd: true, endedAt: null })
    t.same(canceled.periodEnd, before.periodEnd)
    t.match(await provider.resume(id, 'cancel-2'), { status: 'active', cancelAtPeriodEnd: false })
    await provider.cancel(id, 'cancel-3')
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await one(provider, 'cancel'), { status: 'canceled' })
  })

  await t.test('a change of product revokes a cancellation', async (t) => {
    const id = world.subscribe('back', small)
    await provider.cancel(id, 'back-1')
    t.match(await provider.changeProduct(id, large.product, 'now', 'back-2'), {
      cancelAtPeriodEnd: false,
      productIds: [large.product, large.price]
    })
  })

  await t.test('a change to the current state has no effect', async (t) => {
    const id = world.subscribe('twice', small)
    await provider.cancel(id, 'twice-1')
    t.match(await provider.cancel(id, 'twice-2'), { cancelAtPeriodEnd: true })
    await provider.resume(id, 'twice-3')
    t.equal(await provider.resume(id, 'twice-4'), null)
    t.match(await provider.changeProduct(id, small.product, 'now', 'twice-5'), { productIds: [small.product, small.price] })
    t.equal(world.charges(id), 1)
  })

  await t.test('a change whose response was lost is made once', async (t) => {
    const id = world.subscribe('lost', small)
    const losing = async (run: () => Promise<Snapshot | null>) => {
      // Only responses to changes are lost: reads of an adapter before the change succeed.
      world.misfortune('lost')
      return await run()
    }
    t.match(await losing(() => provider.changeProduct(id, large.product, 'now', 'lost-1')), { productIds: [large.product, large.price] })
    t.equal(world.charges(id), 2)
    t.match(await losing(() => provider.cancel(id, 'lost-2')), { cancelAtPeriodEnd: true })
    t.match(await losing(() => provider.resume(id, 'lost-3')), { cancelAtPeriodEnd: false })
  })

  await t.test('a missing subscription is not found', async (t) => {
    for (const id of ['00000000-0000-4000-8000-000000000000', 'sub_unknown', '..', 'a/b', '']) {
      for (
        const call of [
          () => provider.cancel(id, 'a'),
          () => provider.resume(id, 'b'),
          () => provider.changeProduct(id, small.product, 'now', 'c')
        ]
      ) {
        is(t, await rejected(call()), 'notFound')
      }
    }
  })

  await t.test('an ended subscription cannot be changed, and the error says so', async (t) => {
    const id = world.subscribe('over', small)
    world.change(id, 'end')
    is(t, await rejected(provider.changeProduct(id, large.product, 'now', 'over-1')), 'providerRefused')
    is(t, await rejected(provider.resume(id, 'over-2')), 'providerRefused')
  })
}

async function failures (t: Test, world: World): Promise<void> {
  const provider = await world.open()
  const sold = world.sell(pro)
  const id = world.subscribe('acme', sold)
  const after = async (misfortune: Misfortune, times: number, run: () => Promise<unknown> = () => provider.subscriptions(tenantRef('acme'))) => {
    world.forget()
    world.misfortune(misfortune, times)
    try {
      return await run()
    } finally {
      world.misfortune(misfortune, 0)
    }
  }

  await t.test('a temporary failure is retried', async (t) => {
    for (const misfortune of [{ status: 500 }, { status: 503 }, { status: 429, retryAfter: 0 }, 'reset'] as const) {
      t.match(await after(misfortune, 1), [{ id }], JSON.stringify(misfortune))
    }
  })

  await t.test('a lasting failure is reported after at most three attempts', async (t) => {
    for (
      const [index, misfortune] of ([{ status: 500 }, { status: 502 }, 'reset', 'redirect', 'nonsense', 'text', 'huge'] as const).entries()
    ) {
      const tenant = `lasting${index}`
      is(t, await rejected(after(misfortune, 1000, () => provider.subscriptions(tenantRef(tenant)))), 'providerFailed', JSON.stringify(misfortune))
      const requests = new Map<string, number>()
      for (const { method, path } of world.calls) {
        if (path.includes(tenant)) requests.set(`${method} ${path}`, (requests.get(`${method} ${path}`) ?? 0) + 1)
      }
      t.ok(
        requests.size > 0 && [...requests.values()].every((count) => count <= 3),
        `${JSON.stringify(misfortune)}: ${JSON.stringify([...requests])}`
      )
    }
    t.same(world.strayed, [])
  })

  await t.test('a provider that does not respond is given up in time', async (t) => {
    const hasty = await world.open({ timeoutMs: 200 })
    is(t, await rejected(after('silent', 1000, () => hasty.subscriptions(tenantRef('acme')))), 'providerTimeout')
    is(t, await rejected(after('silent', 1000, () => hasty.cancel(id, 'silent-1'))), 'providerTimeout')
    t.match(await one(provider, 'acme'), { cancelAtPeriodEnd: false })
  })

  await t.test('a rate limit is awaited, or reported with the time to wait', async (t) => {
    t.match(await after({ status: 429, retryAfter: 1 }, 1), [{ id }])
    const error = await rejected(after({ status: 429, retryAfter: 60 }, 1))
    is(t, error, 'providerBusy')
    t.match(error.extras, { retryAfter: 60 })
    t.equal(error.headers['retry-after'], '60')
    t.equal(world.calls.filter(({ method }) => method === 'GET').length <= 2, true)
  })

  await t.test('a rejected key is an error of the platform, and is not shown', async (t) => {
    const wrong = await world.open({ apiKey: 'wrong_key_1234567890' })
    const error = await rejected(wrong.subscriptions(tenantRef('acme')))
    is(t, error, 'providerFailed')
    t.notMatch(textOf(error), 'wrong_key_1234567890')
    for (const apiKey of ['line\nbreak', 'käse', ' ']) {
      const other = await rejected((await world.open({ apiKey })).subscriptions(tenantRef('acme')))
      is(t, other, 'providerFailed')
      t.notMatch(textOf(other), apiKey === ' ' ? 'Bearer' : apiKey)
    }
  })

  await t.test("rejected values are reported with the provider's message, without keys", async (t) => {
    for (const status of [400, 422] as const) {
      const message = `The value ${world.apiKey} is\nnot right ${'x'.repeat(400)}`
      const error = await rejected(after({ status, message }, 1, () => provider.cancel(id, 'refused-1')))
      is(t, error, 'providerRefused')
      t.match(error.message, 'is not right')
      t.notMatch(error.message, world.apiKey)
      t.ok(error.message.length < 360)
      t.equal(world.calls.length, 1)
    }
  })
}
