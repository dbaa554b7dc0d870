/** Polar's API, version 2026-04 (https://docs.polar.sh/api-reference). */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Amount, Count, Id, inSnakeCase, Metadata, Optional, Text } from './params.js'

const paging = {
  page: Count('The number of the page. Default: 1.', 100_000),
  limit: Count('The number of records per page. Default: 10.', 100)
}

/** The action that reads one record of a collection. */
const readOne = (collection: string, description: string): ConnectorDefinition['actions'][string] => ({
  method: 'GET',
  path: `/v1/${collection}/{{params.id}}`,
  params: ClosedObject({ id: Id(description) })
})

export const payprov: ConnectorDefinition = {
  name: 'payprov',
  aliases: ['polar'],
  baseUrl: "{{credentials.baseUrl || 'https://api.polar.sh'}}",
  secrets: ['accessToken'],
  auth: { type: 'bearer', token: '{{credentials.accessToken}}' },
  headers: { 'polar-version': '2026-04' },
  actions: {
    createCheckout: {
      method: 'POST',
      path: '/v1/checkouts/',
      params: ClosedObject({
        products: Type.Array(Id('The id of a product.'), {
          minItems: 1,
          maxItems: 50,
          description: 'The ids of the products to choose from. The first is preselected.'
        }),
        customerId: Optional.Id('The id of a customer.'),
        externalCustomerId: Optional.Id('Your own id of the customer.'),
        customerEmail: Optional.Text('The e-mail address of the customer.', 320),
        customerName: Optional.Text('The name of the customer.', 256),
        amount: Type.Optional(Amount('The amount in minor units, if the customer can choose it.')),
        discountId: Optional.Id('The id of a discount.'),
        allowDiscountCodes: Optional.Boolean('Allow the customer to enter a discount code.'),
        successUrl: Optional.Text('The URL to which the customer is redirected after the payment; `{CHECKOUT_ID}` is replaced by the id.'),
        returnUrl: Optional.Text('The URL of the link back from the checkout.'),
        metadata: Metadata
      }),
      body: inSnakeCase(
        'products', 'customerId', 'externalCustomerId', 'customerEmail', 'customerName', 'amount', 'discountId',
        'allowDiscountCodes', 'successUrl', 'returnUrl', 'metadata'
      )
    },
    getCheckout: readOne('checkouts', 'The id of the checkout.'),
    getSubscription: readOne('subscriptions', 'The id of the subscription.'),
    listSubscriptions: {
      method: 'GET',
      path: '/v1/subscriptions/',
      params: ClosedObject({
        customerId: Optional.Id('The id of a customer, as a filter.'),
        externalCustomerId: Optional.Id('Your own id of a customer, as a filter.'),
        productId: Optional.Id('The id of a product, as a filter.'),
        active: Optional.Boolean('Only active, or only inactive records.'),
        ...paging
      }),
      query: inSnakeCase('customerId', 'externalCustomerId', 'productId', 'active', 'page', 'limit')
    },
    cancelSubscription: {
      method: 'PATCH',
      path: '/v1/subscriptions/{{params.id}}',
      params: ClosedObject({ id: Id('The id of the subscription, which is canceled at the end of the paid period.') }),
      body: { cancel_at_period_end: true }
    },
    createCustomer: {
      method: 'POST',
      path: '/v1/customers/',
      params: ClosedObject({
        email: Text('The e-mail address.', 320),
        name: Optional.Text('The name.', 256),
        externalId: Optional.Id('Your own id of the customer.'),
        metadata: Metadata
      }),
      body: inSnakeCase('email', 'name', 'externalId', 'metadata')
    },
    getCustomer: readOne('customers', 'The id of the customer.'),
    listCustomers: {
      method: 'GET',
      path: '/v1/customers/',
      params: ClosedObject({
        email: Optional.Text('The e-mail address of a customer, as a filter.', 320),
        query: Optional.Text('Part of the name or e-mail address of a customer.', 255),
        ...paging
      }),
      query: inSnakeCase('email', 'query', 'page', 'limit')
    },
    listProducts: {
      method: 'GET',
      path: '/v1/products/',
      params: ClosedObject({
        isArchived: Optional.Boolean('Only archived, or only unarchived records.'),
        isRecurring: Optional.Boolean('Only subscriptions, or only one-time products.'),
        ...paging
      }),
      query: inSnakeCase('isArchived', 'isRecurring', 'page', 'limit')
    }
  }
}
