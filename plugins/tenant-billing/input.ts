/** Checks products and checkouts of callers beyond their schemas. The currencies are those of payprov's documentation. */
import { type Static, Type } from 'typebox'
import { OrNull } from '../../lib/http/schemas.js'
import { storablePattern } from '../../lib/json/storable.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { type Interval, intervals } from './records.js'

/** The currencies that payprov supports, according to its documentation: ISO 4217 in lower case. */
export const currencies = [
  'aed', 'all', 'amd', 'aoa', 'ars', 'aud', 'awg', 'azn', 'bam', 'bbd', 'bdt', 'bif', 'bmd', 'bnd', 'bob', 'brl',
  'bsd', 'bwp', 'bzd', 'cad', 'cdf', 'chf', 'clp', 'cny', 'cop', 'crc', 'cve', 'czk', 'djf', 'dkk', 'dop', 'dzd',
  'egp', 'etb', 'eur', 'fjd', 'fkp', 'gbp', 'gel', 'gip', 'gmd', 'gnf', 'gtq', 'gyd', 'hkd', 'hnl', 'htg', 'huf',
  'idr', 'ils', 'inr', 'isk', 'jmd', 'jpy', 'kes', 'kgs', 'khr', 'kmf', 'krw', 'kyd', 'kzt', 'lak', 'lkr', 'lrd',
  'lsl', 'mad', 'mdl', 'mga', 'mkd', 'mnt', 'mop', 'mur', 'mvr', 'mwk', 'mxn', 'myr', 'mzn', 'nad', 'ngn', 'nio',
  'nok', 'npr', 'nzd', 'pab', 'pen', 'pgk', 'php', 'pkr', 'pln', 'pyg', 'qar', 'ron', 'rsd', 'rwf', 'sar', 'sbd',
  'scr', 'sek', 'sgd', 'shp', 'sos', 'srd', 'szl', 'thb', 'tjs', 'top', 'try', 'ttd', 'twd', 'tzs', 'uah', 'ugx',
  'usd', 'uyu', 'uzs', 'vnd', 'vuv', 'wst', 'xaf', 'xcd', 'xcg', 'xof', 'xpf', 'yer', 'zar', 'zmw'
] as const
export type Currency = typeof currencies[number]

const maxAmount = 99_999_999 // in minor units: the maximum of payprov for all currencies
const maxUrl = 2000 // characters
/** payprov's ids. */
export const Id = (description: string) =>
  Type.String({ pattern: '^[A-Za-z0-9_-]{1,255}$', expected: '1 to 255 characters of A-Z a-z 0-9 _ -', description })

export const NewProduct = ClosedObject({
  name: Type.String({
    minLength: 3,
    maxLength: 64,
    pattern: storablePattern,
    description: 'The name of the product: 3 to 64 characters.',
    examples: ['Pro']
  }),
  description: Type.Optional(
    OrNull(Type.String({ maxLength: 10_000, pattern: storablePattern }), 'The description of the product. Default: none.')
  ),
  prices: Type.Array(
    ClosedObject({
      amount: Type.Integer({
        minimum: 0,
        maximum: maxAmount,
        description:
          'The amount in minor units of the currency, such as cents; 0 is free. payprov has a minimum amount for each currency, such as 50 for `usd`.',
        examples: [2900]
      }),
      currency: Type.Enum([...currencies], {
        expected: 'an ISO 4217 currency code in lower case that payprov supports, such as usd',
        description: 'The ISO 4217 code of the currency, in lower case.',
        examples: ['usd']
      }),
      interval: Type.Enum([...intervals], {
        description: 'The billing interval. All prices of a product must have the same interval. Create a product for each interval.'
      })
    }),
    { minItems: 1, maxItems: currencies.length, description: 'The prices of the product, one for each currency.' }
  )
})
export type NewProduct = Static<typeof NewProduct>

const Url = (description: string) =>
  Type.String({
    maxLength: maxUrl,
    pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]',
    expected: 'an absolute URL of http or https',
    description: `${description} An absolute http or https URL without a user name or password.`
  })

export const NewCheckout = ClosedObject({
  productPriceId: Id('The id of a price of one of the products.'),
  customerEmail: Type.String({ format: 'email', maxLength: 254 }),
  successUrl: Url(
    'The URL to which payprov redirects the customer after the payment; `{CHECKOUT_ID}` is replaced by the id of the checkout.'
  ),
  cancelUrl: Url('The URL of the link back from the checkout.')
})
export type NewCheckout = Static<typeof NewCheckout>

/** The interval of a product's prices: payprov has one interval per product, and one price per currency. Throws `validationFailed`. */
export function intervalOf ([first, ...others]: NewProduct['prices']): Interval {
  if (first === undefined) throw invalidInput('/body/prices', 'must have at least 1 item', 'minItems')
  const seen = new Set<string>([first.currency])
  for (const [index, { currency, interval }] of others.entries()) {
    const at = `/body/prices/${index + 1}`
    if (interval !== first.interval) {
      throw invalidInput(
        `${at}/interval`,
        `must be "${first.interval}", as in the first price: a product of payprov has one interval; create another product for "${interval}"`,
        'const'
      )
    }
    if (seen.has(currency)) {
      throw invalidInput(`${at}/currency`, 'must differ from the other prices: a product has one price per currency', 'uniqueItems')
    }
    seen.add(currency)
  }
  return first.interval
}

/** Throws `validationFailed` unless the text is an absolute URL of http or https without user information. */
export function checkUrl (text: string, member: 'successUrl' | 'cancelUrl'): void {
  const [, authority] = /^https?:\/\/([^/?#]+)(?:[/?#]|$)/i.exec(text) ?? []
  // Browsers replace or drop these characters, so that two programs could read the URL differently.
  if (authority === undefined || !URL.canParse(text) || /[\s\\\p{Cc}]/u.test(text)) {
    throw invalidInput(`/body/${member}`, 'must be an absolute URL of http or https', 'format')
  }
  if (authority.includes('@')) throw invalidInput(`/body/${member}`, 'must not contain a user name or password', 'format')
}
