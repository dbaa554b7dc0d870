/** The product map names products or prices of Stripe; a sale always needs a price. */
import type { CallTime } from '../call.js'
import type { AltprovClient } from './client.js'
import { failure } from '../../../../lib/errors.js'
import { readPrice, readPrices, readProduct, type AltprovPrice } from './documented.js'
import { checkId } from './id.js'

/**
 * The price of that id, or of the product of that id: its default price, else its only active recurring one. Throws `notFound` if neither
 * exists, `providerFailed` if the product's price is ambiguous.
 */
export async function priceOf (client: AltprovClient, time: CallTime, product: string): Promise<AltprovPrice> {
  checkId(product)
  if (/^(price|plan)_/.test(product)) {
    return (await client.call(time, readPrice, async (stripe) => await stripe.prices.retrieve(product))).body
  }
  const { body: { default_price: standard } } = await client.call(
    time,
    readProduct,
    async (stripe) => await stripe.products.retrieve(product, { expand: ['default_price'] })
  )
  if (standard?.recurring) return standard
  const { body: { data: [only, ...others] } } = await client.call(
    time,
    readPrices,
    async (stripe) => await stripe.prices.list({ product, active: true, type: 'recurring', limit: 2 })
  )
  if (only !== undefined && others.length === 0) return only
  throw failure('providerFailed', {
    cause: new Error(
      `ALTPROV_PRODUCT_MAP names the product ${product}, which has ${
        only === undefined ? 'no' : 'more than one'
      } active recurring price and no default one: name the price`
    )
  })
}
