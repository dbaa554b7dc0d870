/** Stripe's API v1: forms in, JSON out (https://docs.stripe.com/api). */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Amount, Id, inSnakeCase, Metadata, Optional } from './params.js'

export const payment: ConnectorDefinition = {
  name: 'payment',
  aliases: ['stripe'],
  baseUrl: "{{credentials.baseUrl || 'https://api.stripe.com'}}",
  secrets: ['secretKey'],
  auth: { type: 'bearer', token: '{{credentials.secretKey}}' },
  actions: {
    createPaymentIntent: {
      method: 'POST',
      path: '/v1/payment_intents',
      bodyType: 'form',
      params: ClosedObject({
        amount: Amount('The amount in minor units of the currency.'),
        currency: Type.String({ minLength: 3, maxLength: 3, description: 'The ISO code of the currency, such as `usd`.' }),
        customer: Optional.Id('The id of the customer.'),
        paymentMethod: Optional.Id('The id of the payment method.'),
        confirm: Optional.Boolean('Confirm the payment immediately.'),
        automaticPaymentMethods: Optional.Boolean('Accept the payment methods that are enabled for the account.'),
        description: Optional.Text('The description shown with the payment.', 1000),
        receiptEmail: Optional.Text('The e-mail address for the receipt.', 320),
        metadata: Metadata
      }),
      body: {
        ...inSnakeCase('amount', 'currency', 'customer', 'paymentMethod', 'confirm'),
        automatic_payment_methods: { enabled: '{{params.automaticPaymentMethods}}' },
        ...inSnakeCase('description', 'receiptEmail', 'metadata')
      }
    },
    createCustomer: {
      method: 'POST',
      path: '/v1/customers',
      bodyType: 'form',
      params: ClosedObject({
        email: Optional.Text('The e-mail address.', 512),
        name: Optional.Text('The full name of the person or business.', 256),
        phone: Optional.Text('The phone number.', 20),
        description: Optional.Text('A note shown with the customer.', 350),
        paymentMethod: Optional.Id('The id of the payment method to attach.'),
        metadata: Metadata
      }),
      body: inSnakeCase('email', 'name', 'phone', 'description', 'paymentMethod', 'metadata')
    },
    createSubscription: {
      method: 'POST',
      path: '/v1/subscriptions',
      bodyType: 'form',
      params: ClosedObject({
        customer: Id('The id of the customer.'),
        price: Id('The id of the price.'),
        quantity: Optional.Integer('The quantity. Default: 1.', { minimum: 0, maximum: 1_000_000 }),
        trialPeriodDays: Optional.Integer('The number of days before the first payment.', { minimum: 1, maximum: 730 }),
        defaultPaymentMethod: Optional.Id('The id of the payment method.'),
        paymentBehavior: Optional.Enum(
          'The behavior if the first payment fails.',
          ['allow_incomplete', 'default_incomplete', 'error_if_incomplete', 'pending_if_incomplete']
        ),
        metadata: Metadata
      }),
      body: {
        ...inSnakeCase('customer'),
        items: [inSnakeCase('price', 'quantity')],
        ...inSnakeCase('trialPeriodDays', 'defaultPaymentMethod', 'paymentBehavior', 'metadata')
      }
    },
    cancelSubscription: {
      method: 'DELETE',
      path: '/v1/subscriptions/{{params.subscription}}',
      bodyType: 'form',
      params: ClosedObject({
        subscription: Id('The id of the subscription, which is canceled immediately.'),
        invoiceNow: Optional.Boolean('Bill usage that has not been billed yet.'),
        prorate: Optional.Boolean('Credit the remaining time.')
      }),
      query: inSnakeCase('invoiceNow', 'prorate')
    }
  }
}
