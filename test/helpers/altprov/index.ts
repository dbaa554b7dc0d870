/** The `altprov` provider for tests: a local server that speaks Stripe's protocol, with its account. */
import { createHmac } from 'node:crypto'
import type { Test } from 'tap'
import { loadProvider } from '../../../plugins/billing/providers/index.js'
import { secretText } from '../log-scan.js'
import type { EventKind, SignedEvent, SignOptions, World } from '../payment-world.js'
import { Account } from './account.js'
import { priceOfSession } from './endpoints.js'
import { startServer } from './server.js'

export interface AltprovWorld extends World {
  /** For changes that only this provider has. */
  readonly account: Account
  /** Signs an event with Stripe's own type. */
  stripeEvent(type: string, object: unknown, options?: SignOptions): SignedEvent
}

const eventsOfSubscriptions = {
  created: 'customer.subscription.created',
  updated: 'customer.subscription.updated',
  ended: 'customer.subscription.deleted'
} as const

export async function altprovServer (t: Test): Promise<AltprovWorld> {
  const account = new Account()
  const apiKey = secretText('sk_test_local0123456789altprov', 'the API key of altprov')
  const webhookSecret = secretText('whsec_local0123456789altprov', 'the webhook secret of altprov')
  const { baseUrl, calls, strayed, misfortune } = await startServer(t, account, apiKey)

  function sign (body: Buffer, { at = account.now(), secrets = [webhookSecret] }: SignOptions = {}): SignedEvent {
    const seconds = Math.floor(at / 1000)
    const signatures = secrets.map((secret) => `v1=${createHmac('sha256', secret).update(`${seconds}.`).update(body).digest('hex')}`)
    return { body, headers: { 'stripe-signature': [`t=${seconds}`, ...signatures].join(',') } }
  }

  function stripeEvent (type: string, object: unknown, options?: SignOptions): SignedEvent {
    return sign(
      Buffer.from(JSON.stringify({
        id: account.newId('evt'),
        object: 'event',
        api_version: '2026-10-28.endive',
        created: account.seconds(),
        data: { object },
        livemode: false,
        pending_webhooks: 1,
        request: { id: null, idempotency_key: null },
        type
      })),
      options
    )
  }

  function event (kind: EventKind, id: string, options?: SignOptions): SignedEvent {
    const subscription = account.one('subscription', id)
    const { customer, currency, metadata, latest_invoice: invoice, items: { data: [{ price: { unit_amount: amount } }] } } = subscription
    switch (kind) {
      case 'created':
      case 'updated':
      case 'ended':
        return stripeEvent(eventsOfSubscriptions[kind], subscription, options)
      case 'paid':
        return stripeEvent('invoice.paid', {
          id: invoice,
          object: 'invoice',
          customer,
          currency,
          amount_due: amount,
          amount_paid: amount,
          parent: { type: 'subscription_details', quote_details: null, subscription_details: { subscription: id, metadata } }
        }, options)
      case 'refunded':
        return stripeEvent('charge.refunded', {
          id: account.newId('ch'),
          object: 'charge',
          customer,
          currency,
          amount,
          amount_refunded: amount,
          metadata: {}
        }, options)
      case 'other':
        return stripeEvent('payment_intent.created', { id: account.newId('pi'), object: 'payment_intent' }, options)
    }
  }

  return {
    account,
    baseUrl,
    apiKey,
    webhookSecret,
    calls,
    strayed,
    misfortune,
    sign,
    stripeEvent,
    event,
    open: async (settings) =>
      await loadProvider('altprov', { apiKey, webhookSecrets: [webhookSecret], baseUrl, organizationId: undefined, ...settings }),
    now: () => account.now(),
    advance: (milliseconds) => {
      account.advance(milliseconds)
    },
    sell: (product) => account.sell(product),
    subscribe (tenant, { price }, { trialDays } = {}) {
      const customer = account.all('customer').find(({ metadata }) => metadata['tenant_id'] === tenant) ??
        account.addCustomer({ tenant_id: tenant })
      return account.addSubscription(customer.id, account.one('price', price), { metadata: { tenant_id: tenant }, trialDays }).id
    },
    pay (checkout) {
      const session = account.one('checkout.session', checkout)
      return account.pay(session, account.one('price', priceOfSession(session))).id
    },
    change: (subscription, change) => {
      account.change(subscription, change)
    },
    charges: (subscription) => account.charges(subscription),
    decline (declines) {
      account.declines = declines
    },
    forget: () => {
      calls.length = 0
    }
  }
}
