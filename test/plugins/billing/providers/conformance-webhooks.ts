/** The conformance suite's part for webhooks of payment providers. */
import type { Test } from 'tap'
import type { Snapshot } from '../../../../plugins/billing/providers/provider.js'
import type { World } from '../../../helpers/payment-world.js'
import { one, refused } from './conformance-checks.js'

const day = 86_400_000 // ms
const minute = 60_000 // ms

export async function webhooks (t: Test, world: World): Promise<void> {
  const provider = await world.open()
  const sold = world.sell({ name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' })
  const id = world.subscribe('acme', sold)
  const now = world.now()

  await t.test('events contain the current subscription, or the payment', async (t) => {
    const snapshot = await one(provider, 'acme')
    for (const kind of ['created', 'updated'] as const) {
      const { body, headers } = world.event(kind, id)
      const event = provider.readWebhook(body, headers, now)
      t.match(event, { tenant: 'acme', subscriptionId: id, payment: null })
      t.same(withoutTime(event?.snapshot), withoutTime(snapshot))
      t.ok(event?.id)
      t.ok(event?.at instanceof Date)
    }
    for (const kind of ['paid', 'refunded'] as const) {
      const { body, headers } = world.event(kind, id)
      const event = provider.readWebhook(body, headers, now)
      t.match(event, { customerId: snapshot.customerId, snapshot: null, payment: { outcome: kind, amount: 2900, currency: 'usd' } })
      // A refund of altprov refers to a charge, which names only the customer.
      if (kind === 'paid' || provider.name !== 'altprov') t.match(event, { tenant: 'acme', subscriptionId: id })
    }
    const { body, headers } = world.event('other', id)
    t.equal(provider.readWebhook(body, headers, now), null)
  })

  await t.test('two events have two ids; a redelivered event keeps its id', async (t) => {
    const [first, second] = [world.event('updated', id), world.event('updated', id)]
    t.not(provider.readWebhook(first.body, first.headers, now)?.id, provider.readWebhook(second.body, second.headers, now)?.id)
    t.equal(provider.readWebhook(first.body, first.headers, now)?.id, provider.readWebhook(first.body, first.headers, now + minute)?.id)
  })

  await t.test('the tolerance is five minutes in both directions', async (t) => {
    const { body, headers } = world.event('updated', id)
    for (const offset of [0, 4 * minute, -4 * minute]) t.ok(provider.readWebhook(body, headers, now + offset), String(offset))
    for (const offset of [6 * minute, -6 * minute, day]) {
      refused(t, () => provider.readWebhook(body, headers, now + offset), 'signatureInvalid', String(offset))
    }
  })

  await t.test('anything that differs from the signed request is rejected', async (t) => {
    const { body, headers } = world.event('updated', id)
    const changed = Buffer.from(body)
    changed[changed.length - 2] = 0x20
    refused(t, () => provider.readWebhook(changed, headers, now), 'signatureInvalid', 'changed')
    refused(t, () => provider.readWebhook(Buffer.concat([body, Buffer.from(' ')]), headers, now), 'signatureInvalid', 'longer')
    refused(t, () => provider.readWebhook(Buffer.alloc(0), headers, now), 'signatureInvalid', 'empty')
    refused(t, () => provider.readWebhook(body, {}, now), 'signatureInvalid', 'no headers')
    for (const name of Object.keys(headers)) {
      refused(t, () => provider.readWebhook(body, { ...headers, [name]: undefined }, now), 'signatureInvalid', `without ${name}`)
      refused(t, () => provider.readWebhook(body, { ...headers, [name]: '' }, now), 'signatureInvalid', `empty ${name}`)
      refused(t, () => provider.readWebhook(body, { ...headers, [name]: 'ä,=;.' }, now), 'signatureInvalid', `other ${name}`)
      refused(
        t,
        () => provider.readWebhook(body, { ...headers, [name]: `${headers[name] ?? ''}1` }, now),
        'signatureInvalid',
        `longer ${name}`
      )
    }
  })

  await t.test('one valid signature among several is enough; none is not', async (t) => {
    const { secret, signed } = secretsOf(world, id)
    t.ok(provider.readWebhook(...signed(['another secret', secret]), now))
    refused(t, () => provider.readWebhook(...signed(['another secret', 'a third one']), now), 'signatureInvalid', 'none right')
    refused(t, () => provider.readWebhook(...signed([]), now), 'signatureInvalid', 'none at all')
  })

  await t.test('a replaced secret is accepted as long as it is configured', async (t) => {
    const { secret, signed } = secretsOf(world, id)
    const rotated = await world.open({ webhookSecrets: ['the new secret of the webhooks', secret] })
    t.ok(rotated.readWebhook(...signed([secret]), now))
    t.ok(rotated.readWebhook(...signed(['the new secret of the webhooks']), now))
    const later = await world.open({ webhookSecrets: ['the new secret of the webhooks'] })
    refused(t, () => later.readWebhook(...signed([secret]), now), 'signatureInvalid', 'taken out')
    const without = await world.open({ webhookSecrets: [] })
    refused(t, () => without.readWebhook(...signed([secret]), now), 'signatureInvalid', 'no secret')
    const empty = await world.open({ webhookSecrets: [''] })
    refused(t, () => empty.readWebhook(...signed(['']), now), 'signatureInvalid', 'an empty secret')
  })

  await t.test('a signed body that is not an event is a bad request', async (t) => {
    for (
      const text of [
        'no json',
        '[]',
        'null',
        '"text"',
        '{}',
        '{"type":1}',
        '{"type":"subscription.updated"}',
        '{"id":"evt_1","type":"customer.subscription.updated"}',
        '\ud800'
      ]
    ) {
      const { body, headers } = world.sign(Buffer.from(text))
      refused(t, () => provider.readWebhook(body, headers, now), 'badRequest', text)
    }
  })

  await t.test("an ended subscription's event reports the end", async (t) => {
    world.change(id, 'end')
    const { body, headers } = world.event('ended', id)
    t.match(provider.readWebhook(body, headers, now), { snapshot: { id, status: 'canceled', endedAt: new Date(world.now()).toISOString() } })
  })
}

function secretsOf (world: World, subscription: string) {
  const { body } = world.event('updated', subscription)
  return {
    secret: world.webhookSecret,
    signed: (secrets: readonly string[]): [Buffer, Record<string, string>] => [body, world.sign(body, { secrets }).headers]
  }
}

/** Members that events report differently: the time of the snapshot, and the payment method. */
function withoutTime (snapshot: Snapshot | null | undefined): Partial<Snapshot> {
  const { asOf, paymentMethod, ...rest } = snapshot ?? {}
  return rest
}
